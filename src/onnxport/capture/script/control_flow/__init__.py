"""Branches and loops of scripted programs.

In: nodes of TorchScript. Out: nodes with blocks, or none where the path is known. Imports `script`, `sizes`, `graph`.
"""
