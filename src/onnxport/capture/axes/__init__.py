"""The axes of the inputs that may vary: what is declared, how they are related, and points of them to evaluate at."""
