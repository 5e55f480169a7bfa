"""What an export returns: the program, its report and warnings, the graph as text, and edits of the program.

In: the ONNX model and what the phases found. Out: `Program`, `Report`. Imports `backend`, `capture`, `graph`, `lower`,
`optimize`, `options`, `save`, `verification`. Nothing is exported here: reports are read without torch.
"""
