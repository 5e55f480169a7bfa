"""Operators without a converter, replaced by torch's own decompositions."""
