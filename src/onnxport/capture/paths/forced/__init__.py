"""Runs of a model on both sides of each condition on data, as one record with branches.

In: a run, and a way to run the model again with other outcomes of such conditions. Out: a run whose record has both
sides between marks, as `record.calls.control_flow` has those of ``torch.cond``. Imports `record`, `merge`.
"""
