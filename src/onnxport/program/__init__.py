"""What an export returns: the program, its warnings and what its report has, the graph as text, and edits.

In: the ONNX model and what the phases found. Out: `Program`. Imports `backend`, `capture`, `graph`, `lower`,
`optimize`, `options`, `progress`, `report`, `save`, `verification`.
"""
