"""From a wrong result to the operator that makes it: both sides are run step by step and compared."""

from onnxport.verification.bisect.diagnosis import Evidence, diagnose
from onnxport.verification.bisect.translation import Retranslation

__all__ = ["Evidence", "Retranslation", "diagnose"]
