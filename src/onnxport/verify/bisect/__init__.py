"""From a wrong result to the operator that makes it: both sides are run step by step and compared."""

from onnxport.verify.bisect.diagnosis import Evidence, diagnose
from onnxport.verify.bisect.trail import StepError, error_trail
from onnxport.verify.bisect.translation import Retranslation

__all__ = ["Evidence", "Retranslation", "StepError", "diagnose", "error_trail"]
