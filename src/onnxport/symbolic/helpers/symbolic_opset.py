"""onnxport's own converters by the names of torch's operators, for symbolic functions that call them."""

from onnxport.symbolic.helpers.builtin import lookup as __getattr__

__all__ = ["__getattr__"]
