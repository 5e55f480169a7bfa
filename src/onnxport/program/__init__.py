"""What an export hands back: the program, its report, warnings, the graph as text, and edits of the program.

In: the ONNX model and what the phases found. Out: `Program`, `Report`. Imports `capture`, `graph`, `options`,
`save`, `verify`.
"""
