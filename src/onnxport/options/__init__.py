"""The arguments of `onnxport.export`, read and checked once.

In: keyword arguments. Out: frozen `Options`. Imports `capture`, `progress`, `save`, `verification`. `enums` is
imported without torch, so nothing is exported here.
"""
