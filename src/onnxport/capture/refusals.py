"""What a model raises when it does not take what it is given."""

from __future__ import annotations

import torch

# Anything else is the model's own bug and is passed on. Whatever scripted code raises is a torch.jit.Error.
REFUSALS = (
    RuntimeError, ValueError, TypeError, IndexError, KeyError, AssertionError, ArithmeticError, AttributeError,
    torch.jit.Error,
)  # fmt: skip
