"""The dynamic axes of the inputs: what is declared, how they are related, and points at which to evaluate.

In: ``dynamic_axes`` or ``dynamic_shapes``, and the example. Out: `Axis` objects, and points. Imports `model`, `graph`.
"""
