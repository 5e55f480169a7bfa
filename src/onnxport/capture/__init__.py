"""From a model to a graph of ATen operators with sizes as expressions.

In: a model with its example and its dynamic axes. Out: a `Capture`. Imports `graph` and `compat`.

`model` runs the model, `axes` reads the dynamic axes, `record` records a run, `sizes` evaluates sizes at points,
`build` turns a record into the graph, `paths` follows conditions and loops over sizes. `script` reads TorchScript,
`exported` takes programs of torch.export, `definitions` records torch's decompositions of operators.
"""
