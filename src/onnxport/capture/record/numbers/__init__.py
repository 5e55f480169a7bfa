"""Python numbers that carry expressions, and what Python does with them: conversions, look-ups, what is left behind.

In: sizes and contents of tensors. Out: numbers, and notes of what was lost. Imports `record.record`, `compat`.
"""
