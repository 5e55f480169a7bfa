"""From the captured graph to ONNX: the walk, the builder that converters write with, and what differs between opsets.

In: a functional `Graph` and the converters of `ops`. Out: an onnx_ir model. Imports `graph`.
"""
