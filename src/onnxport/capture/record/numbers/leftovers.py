"""Numbers with expressions that a model keeps beyond a recorded run are plain numbers again afterwards."""

from __future__ import annotations

import gc
import traceback
from collections.abc import Iterable, Sequence
from types import CellType
from typing import Any
from weakref import ReferenceType

import torch

from onnxport.capture.record.numbers.carriers import CARRIERS, plain

# How many tuples within tuples are looked through, from a number to what holds it.
MOST_LEVELS = 4


def make_plain(given: Iterable[ReferenceType[Any]], keep: Sequence[Any] = ()) -> int:
    """Replace numbers that are still alive wherever they are held, but for the lists ``keep``. How many there were."""
    alive = [number for reference in given if (number := reference()) is not None]
    if not alive:
        return 0
    own = {id(alive), *map(id, keep)}
    found: list[Any] = list(alive)
    for _ in range(MOST_LEVELS):
        holders = [holder for holder in gc.get_referrers(*found) if id(holder) not in own and holder is not found]
        own.add(id(holders))
        tuples = [holder for holder in holders if isinstance(holder, tuple)]
        for holder in holders:
            _replace_in(holder)
        if not tuples:
            break
        found = tuples
        own.add(id(found))
    return len(alive)


def let_go(error: BaseException | None) -> None:
    """Empty the frames that an error keeps, and make plain what it holds itself, as a missing key, and what their
    functions share: nothing else is searched."""
    while error is not None:
        error.args = _plain(error.args)
        traceback.clear_frames(error.__traceback__)
        for frame, _ in traceback.walk_tb(error.__traceback__):
            for function in gc.get_referents(frame):
                for cell in filter(gc.get_referents, getattr(function, "__closure__", None) or ()):
                    _replace_in(cell)
        error = error.__context__


def _replace_in(holder: Any) -> None:
    kind = type(holder)
    entry = next((value for value in holder.values() if _is_entry(value)), None) if kind is dict else None
    if entry is not None:
        _clear_cache_of(entry)
    elif isinstance(holder, dict):
        changed = [(key, _plain(key), _plain(value)) for key, value in list(holder.items())]
        for key, plain_key, value in changed:
            if plain_key is not key:
                del holder[key]
                holder.setdefault(plain_key, value)
            elif holder[key] is not value:
                holder[key] = value
    elif isinstance(holder, list):
        for index, value in enumerate(holder):
            replaced = _plain(value)
            if replaced is not value:
                holder[index] = replaced
    elif isinstance(holder, set):
        for value in [value for value in holder if _plain(value) is not value]:
            holder.remove(value)
            holder.add(_plain(value))
    elif kind is CellType:
        holder.cell_contents = _plain(holder.cell_contents)
    elif _is_entry(holder):
        _clear_cache_of(holder)
    else:
        _replace_in_slots(holder)


def _replace_in_slots(holder: Any) -> None:
    for kind in type(holder).__mro__:
        slots = vars(kind).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            value = getattr(holder, name, None)
            if _plain(value) is not value:
                object.__setattr__(holder, name, _plain(value))


def _is_entry(value: Any) -> bool:
    """Whether this is an entry of ``functools.lru_cache``. Where its size is limited, only a dictionary holds them."""
    return type(value).__name__ == "_lru_list_elem"


def _clear_cache_of(entry: Any) -> None:
    """Forget what ``functools.lru_cache`` holds: it relies on each of its entries, which cannot be changed."""
    for entries in gc.get_referrers(entry):
        for cache in gc.get_referrers(entries) if isinstance(entries, dict) else ():
            if hasattr(cache, "cache_clear"):
                cache.cache_clear()


def _plain(value: Any) -> Any:
    """The value without expressions; the same object if it has none."""
    if type(value) in CARRIERS:
        return plain(value)
    if not isinstance(value, tuple):
        return value
    parts = [_plain(part) for part in value]
    if all(new is old for new, old in zip(parts, value, strict=True)):
        return value
    if isinstance(value, torch.Size):
        return torch.Size(parts)
    return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
