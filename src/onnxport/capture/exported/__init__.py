"""Programs of torch.export: as modules that can be traced, with the axes that they were made with."""

from onnxport.capture.exported.axes import axes_of
from onnxport.capture.exported.module import ExportedModule, opened

__all__ = ["ExportedModule", "axes_of", "opened"]
