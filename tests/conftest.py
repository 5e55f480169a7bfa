"""What every test runs under."""

from __future__ import annotations

import pytest
import torch

# The tests run in parallel processes that share the cores: more threads in each would only get in each other's way.
torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _seed() -> None:
    """Random inputs and weights are the same in each run and do not depend on the order of the tests."""
    torch.manual_seed(0)
