"""The dynamic axes of the inputs: what is declared, how they are related, and points at which to evaluate."""
