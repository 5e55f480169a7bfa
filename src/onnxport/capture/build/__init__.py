"""Builds the captured graph from a record: arguments bound by schema, sizes as expressions, the type of every value.

In: a `Record` and the points at which sizes are evaluated. Out: a `Graph`. Imports `record`, `sizes`,
`script`, `graph`.
"""
