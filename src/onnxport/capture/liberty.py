"""What a traced call does otherwise than a plain one, so that the file serves for other data, too."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch


@dataclass
class Liberty:
    """Whether a trace may do so: it may until a call fails or gives something else because of it.

    ``used`` tells that the last call did.
    """

    allowed: bool = True
    used: bool = False
    _proven: bool = False

    def agrees(self, results: Callable[[], Iterable[tuple[Sequence[Any], Sequence[Any]]]]) -> bool:
        """Whether calls gave what plain ones give, as ``results`` has them in pairs; that is looked at once."""
        if not self.used or self._proven:
            return True
        self._proven = all(all(map(is_close, traced, plain)) for traced, plain in results())
        return self._proven


def is_close(left: torch.Tensor, right: Any) -> bool:
    if not isinstance(right, torch.Tensor) or left.shape != right.shape:
        return False
    exact = not (left.is_floating_point() or left.is_complex())
    return torch.equal(left, right) if exact else torch.allclose(left, right, rtol=1e-3, atol=1e-4, equal_nan=True)
