"""Custom operators: users' symbolic functions, those of autograd Functions, and operators kept as torch's.

In: a user's function, and the captured node that it translates. Out: ONNX values, added with the builder of `lower`.
Imports `graph`, `lower`, `options`, `report`.
"""

from onnxport.symbolic.overlay import converter, register_custom_op_symbolic, unregister_custom_op_symbolic

__all__ = ["converter", "register_custom_op_symbolic", "unregister_custom_op_symbolic"]
