"""Quantization-aware training and calibration of float models: `init(model)`, train or calibrate, `onnxport.export`.

In: a float model. Out: the same model, whose inputs of layers and weights are rounded to what integers can hold, on
torch's own kernels. Nothing of torch.ao or torchao is used. Imports `compat`, `report`.

`help(onnxport.quant.init)` has the settings.
"""

from onnxport.quant.constrain import constrain
from onnxport.quant.inspect import QuantizedTensor, tensors
from onnxport.quant.losses import LayerLoss, report
from onnxport.quant.model import calibration, init, remove
from onnxport.quant.settings import Settings

__all__ = [
    "LayerLoss",
    "QuantizedTensor",
    "Settings",
    "calibration",
    "constrain",
    "init",
    "remove",
    "report",
    "tensors",
]
