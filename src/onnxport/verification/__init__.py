"""Every export is run in ONNX Runtime and compared with torch, at the example's sizes and at others.

In: the written file, and the torch model with its example. Out: `Verification`, and a `Mismatch` where something is
wrong (`bisect/` finds the operator). Imports `capture`, `compat`, `graph`, `lower`, `optimize`, `report`,
`save`.
"""

from onnxport.verification.mismatch import Cause, Mismatch
from onnxport.verification.results import Case, Verification
from onnxport.verification.sample import Check, Sample

__all__ = ["Case", "Cause", "Check", "Mismatch", "Sample", "Verification"]
