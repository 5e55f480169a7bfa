"""torch's own definitions of operators, recorded in place of operators that have no translation."""
