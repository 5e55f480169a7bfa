"""What an export shows to users: its report and page, its progress, its errors without the package's own frames.

In: a report and the model. Out: text. Imports `optimize`, and no torch.
"""
