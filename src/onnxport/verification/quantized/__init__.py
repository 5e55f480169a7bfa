"""The check of quantized models, part by part: from integers to the next integers, on torch's own integers.

One rounding that falls the other way spreads through all later layers, so the results as a whole say little. In: the
captured graph, the file and samples. Out: a case for each sample. Imports `capture`, `compat`, `graph`, `save`.
"""

from onnxport.verification.quantized.check import PartwiseCheck, partwise_check, read_model
from onnxport.verification.quantized.cutting import rounds_of
from onnxport.verification.quantized.matching import integers_of, matched, own_matches
from onnxport.verification.quantized.quantizers import rounds_inside

__all__ = [
    "PartwiseCheck",
    "integers_of",
    "matched",
    "own_matches",
    "partwise_check",
    "read_model",
    "rounds_inside",
    "rounds_of",
]
