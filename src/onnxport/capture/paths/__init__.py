"""The paths that a model takes at other sizes of its dynamic axes, and one graph for all of them.

In: a model that can be recorded at any point, and its declared axes. Out: a `Capture`.
Imports `axes`, `model`, `record`, `build`, `sizes`, `graph`.
"""
