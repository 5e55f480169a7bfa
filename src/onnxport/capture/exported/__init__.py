"""Programs of torch.export as modules that can be recorded, and their dynamic axes.

In: an `ExportedProgram`. Out: a module, its example and its axes. Imports `axes`, `model`, `compat`.
"""

from onnxport.capture.exported.axes import axes_of
from onnxport.capture.exported.module import ExportedModule, opened

__all__ = ["ExportedModule", "axes_of", "opened"]
