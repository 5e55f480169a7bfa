"""Custom operators: symbolic functions that users register or autograd Functions have, and operators kept as torch's.

In: a user's function, and the captured node that it translates. Out: ONNX values, made by the builder of `lower`.
Imports `graph`, `lower`, `options`.
"""

from onnxport.symbolic.overlay import converter, register_custom_op_symbolic, unregister_custom_op_symbolic

__all__ = ["converter", "register_custom_op_symbolic", "unregister_custom_op_symbolic"]
