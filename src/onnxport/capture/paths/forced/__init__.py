"""Merges runs with both outcomes of each condition on data into one record with branches.

In: a run, and a way to run the model again with other outcomes of such conditions. Out: a run whose record has both
branches between marks, as `record.calls.control_flow` has those of ``torch.cond``. Imports `record`, `merge`.
"""
