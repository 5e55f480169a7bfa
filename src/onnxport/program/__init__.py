"""The result of an export: the program, its warnings, data for its report, the graph as text, and edits.

In: the ONNX model and the results of the phases. Out: `Program`. Imports `backend`, `capture`, `graph`, `lower`,
`optimize`, `options`, `report`, `save`, `verification`.
"""
