"""The report of an export, and its page: one HTML file that stands alone.

In: a report and the model. Out: text. Imports `optimize` for its walk over the graph, and no torch.
"""
