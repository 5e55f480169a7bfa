"""A model becomes a graph of ATen operators with sizes as expressions.

In: a model with its example and the axes that may vary. Out: a `Capture`. Imports `graph` and `compat`.

`model` runs it, `axes` has what is declared dynamic, `record` records a run, `sizes` evaluates sizes at points, `build`
makes a record the graph, `paths` follows conditions and loops over sizes; `script` reads TorchScript, `exported` takes
programs of torch.export, `definitions` has torch's definitions of operators.
"""
