"""Parts of the captured graph that become graphs of their own: bodies of If and Loop, and ONNX functions.

In: nodes with blocks, or the nodes of a module's call. Out: ONNX nodes with subgraphs, functions. Imports `graph` and
the builder of `lower`.
"""
