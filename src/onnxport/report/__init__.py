"""The report page: one HTML file that stands alone. In: a report and the model. Out: text. Imports no torch."""
