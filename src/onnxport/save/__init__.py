"""Writing a model: streamed from the tensors' memory to a staged file, which replaces the target atomically.

In: an onnx_ir model and a path or file object. Out: a `Staged` file. Imports `compat`, onnx_ir and onnx.

    check_target(f)  # before any work
    with stage(model, f) as staged:  # written beside the target, not yet visible
        verify(staged.source)  # a path or bytes, as onnxruntime.InferenceSession takes them
        staged.commit()  # leaving without it discards everything
"""

from onnxport.save.check import check_graph
from onnxport.save.open_sizes import SIZES_OPEN
from onnxport.save.proto import SplitModel, serialize, split, to_proto
from onnxport.save.staging import Staged, stage
from onnxport.save.stored import References
from onnxport.save.target import Target, check_target, is_path

__all__ = [
    "SIZES_OPEN",
    "References",
    "SplitModel",
    "Staged",
    "Target",
    "check_graph",
    "check_target",
    "is_path",
    "serialize",
    "split",
    "stage",
    "to_proto",
]
