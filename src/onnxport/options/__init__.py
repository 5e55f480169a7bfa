"""The arguments of `onnxport.export`, read and checked once.

In: keyword arguments. Out: frozen `Options`. Imports `capture`, `optimize`, `report`, `save`, `verification`. `enums`
and `plain` are imported without torch: nothing is exported here.
"""
