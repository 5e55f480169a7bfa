"""Python loops of a record: the calls of their iterations, which stand one after another, become one loop.

In: a record, and the lines on which loops over sizes begin, or the decisions of a loop that data end. Out: the record
with loops between marks, as `record.calls.control_flow` has those of ``while_loop``. Imports `record`, `merge`.
"""
