"""Evaluation of nodes that are not operators of torch: lists of unknown length, and Python functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from onnxport.graph.ir import Node, PythonCall

PYTHON_OP = "prim::PythonOp"


def is_special(node: Node) -> bool:
    return node.op == PYTHON_OP or node.op in _LISTS


def compute(node: Node, arguments: dict[str, Any]) -> list[Any]:
    """The results of a special node; a list is one result."""
    return _call(arguments) if node.op == PYTHON_OP else [_LISTS[node.op](**arguments)]


def _call(arguments: dict[str, Any]) -> list[Any]:
    """Call an autograd Function again; returns the tensors among its results."""
    call = arguments["call"]
    assert isinstance(call, PythonCall)
    given = [arguments.get(str(position), constant) for position, constant in enumerate(call.arguments)]
    results = call.function.apply(*given)
    results = results if isinstance(results, (tuple, list)) else (results,)
    return [result for result, is_tensor in zip(results, call.tensors, strict=True) if is_tensor]


def _list(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    return list(tensors)


def _length(sequence: list[torch.Tensor]) -> int:
    return len(sequence)


def _insert(sequence: list[torch.Tensor], tensor: torch.Tensor, index: Any = None) -> list[torch.Tensor]:
    position = len(sequence) if index is None else int(index)
    return [*sequence[:position], tensor, *sequence[position:]]


def _erase(sequence: list[torch.Tensor], index: Any) -> list[torch.Tensor]:
    position = range(len(sequence))[int(index)]
    return [*sequence[:position], *sequence[position + 1 :]]


def _replace(sequence: list[torch.Tensor], index: Any, tensor: torch.Tensor) -> list[torch.Tensor]:
    position = range(len(sequence))[int(index)]
    return [*sequence[:position], tensor, *sequence[position + 1 :]]


def _slice(sequence: list[torch.Tensor], start: Any, end: Any, step: Any = 1) -> list[torch.Tensor]:
    bounds = (None if bound is None else int(bound) for bound in (start, end, step))
    return sequence[slice(*bounds)]


def _split(self: torch.Tensor, split_size: Any, dim: int = 0) -> list[torch.Tensor]:
    lengths = [int(length) for length in split_size] if isinstance(split_size, (list, tuple)) else int(split_size)
    return list(self.split(lengths, dim))  # type: ignore[no-untyped-call]


def _chunk(self: torch.Tensor, chunks: Any, dim: int = 0) -> list[torch.Tensor]:
    return list(self.chunk(int(chunks), dim))


def _split_with_sizes(self: torch.Tensor, split_sizes: Any, dim: int = 0) -> list[torch.Tensor]:
    return list(self.split([int(length) for length in split_sizes], dim))  # type: ignore[no-untyped-call]


_LISTS: dict[str, Callable[..., Any]] = {
    "onnxport::sequence": _list,
    "onnxport::sequence_insert": _insert,
    "onnxport::sequence_at": lambda sequence, index: sequence[int(index)],
    "onnxport::sequence_erase": _erase,
    "onnxport::sequence_replace": _replace,
    "onnxport::sequence_length": _length,
    "onnxport::sequence_join": lambda left, right: [*left, *right],
    "onnxport::sequence_slice": _slice,
    "onnxport::cat_sequence": lambda tensors, dim=0: torch.cat(tensors, dim),
    "onnxport::stack_sequence": lambda tensors, dim=0: torch.stack(tensors, dim),
    "onnxport::unbind_sequence": lambda self, dim=0: list(self.unbind(dim)),
    "onnxport::split_sequence": _split,
    "onnxport::split_with_sizes_sequence": _split_with_sizes,
    "onnxport::chunk_sequence": _chunk,
    "onnxport::optional": lambda present, tensor: tensor if present else None,
}


def title_of(node: Node) -> str:
    """The operator as messages have it: with the name of the autograd Function that it calls."""
    call = node.inputs.get("call")
    return f"{call.function.__name__} ({node.op})" if isinstance(call, PythonCall) else node.op
