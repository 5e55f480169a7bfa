"""The arguments of the public call, read once: what is asked, as frozen objects.

In: keyword arguments. Out: `Options`. Imports `capture`, `graph`, `save`, `symbolic`, `verify`.
"""
