"""From a wrong result to the operator that makes it: both sides are run step by step and compared.

In: the file, the captured graph and the sample on which they differ. Out: a `Mismatch` with its `Cause`, and the
errors step by step. Imports `capture`, `compat`, `graph`, `lower`, `optimize`.
"""

from onnxport.verification.bisect.diagnosis import Evidence, diagnose
from onnxport.verification.bisect.trail import StepError, error_trail
from onnxport.verification.bisect.translation import Retranslation

__all__ = ["Evidence", "Retranslation", "StepError", "diagnose", "error_trail"]
