"""Operators beyond the library: the classic custom-operator surface, and operators of torch kept as nodes."""
