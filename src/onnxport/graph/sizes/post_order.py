"""A walk over trees with shared parts, without recursion, as expressions may be deep."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")


def post_order(root: T, parts: Callable[[T], Sequence[T]]) -> Iterator[T]:
    """Every object of a tree once, its parts first."""
    seen: set[int] = set()
    stack: list[tuple[T, bool]] = [(root, False)]
    while stack:
        node, ready = stack.pop()
        if ready:
            yield node
        elif id(node) not in seen:
            seen.add(id(node))
            stack.append((node, True))
            stack.extend([(part, False) for part in reversed(parts(node)) if id(part) not in seen])
