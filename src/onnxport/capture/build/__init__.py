"""A record becomes the captured graph: arguments bound by schema, sizes as expressions, types of every value.

In: a `Record` and the points at which sizes are evaluated. Out: a `Graph`. Imports `record`, `sizes`,
`script`, `graph`.
"""
