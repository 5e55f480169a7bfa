"""The steps of `pipeline.py` that use several rooms: binding of the call, translation, check, result.

In: the call and its `Options`. Out: `BoundCall`, `Draft`, `Checked`, `Program`. Imports `backend`, `capture`,
`compat`, `graph`, `lower`, `optimize`, `options`, `program`, `report`, `save`, `symbolic`, `verification`; only
`pipeline` imports it.
"""

from onnxport.stages.binding import GivenCall, bind_call, weights_in_memory
from onnxport.stages.checking import check_file
from onnxport.stages.result import make_program, measure, pieces
from onnxport.stages.surroundings import by_itself, observers_off
from onnxport.stages.translation import Draft, lower, normalise, optimise

__all__ = [
    "Draft",
    "GivenCall",
    "bind_call",
    "by_itself",
    "check_file",
    "lower",
    "make_program",
    "measure",
    "normalise",
    "observers_off",
    "optimise",
    "pieces",
    "weights_in_memory",
]
