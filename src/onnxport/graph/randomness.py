"""Finds the values that depend on random numbers: only their shape and dtype can be compared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from onnxport.graph.equality import is_same
from onnxport.graph.interpret import Interpreter, mutates
from onnxport.graph.ir import Block, Graph, Node, Value

RANDOM_OPERATORS = frozenset(
    f"aten::{name}"
    for name in [
        "bernoulli",
        "binomial",
        "cauchy",
        "dropout",
        "alpha_dropout",
        "feature_dropout",
        "feature_alpha_dropout",
        "native_dropout",
        "exponential",
        "geometric",
        "log_normal",
        "multinomial",
        "normal",
        "normal_functional",
        "poisson",
        "rand",
        "rand_like",
        "randint",
        "randint_like",
        "randn",
        "randn_like",
        "random",
        "randperm",
        "rrelu",
        "rrelu_with_noise",
        "rrelu_with_noise_functional",
        "uniform",
        "_fused_dropout",
        "standard_gamma",
        "fractional_max_pool2d",
        "fractional_max_pool3d",
    ]
)

# Their results are uninitialized memory. Most models overwrite all of it before they read.
UNINITIALIZED = frozenset(
    f"aten::{name}"
    for name in ("empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided")
)
# A few runs are enough for random numbers, even if they are often equal, as random bools are.
MAX_RUNS = 8


def unsure_outputs(graph: Graph, inputs: Sequence[torch.Tensor]) -> frozenset[int]:
    """The outputs that cannot be compared: random numbers, and memory that was read before it was written.

    Both differ when the graph is run with other seeds and with other fillings of such memory.
    """
    unsure: set[int] = set()
    doubted = _depending(graph.block, is_random)
    doubtful = {index for index, value in enumerate(graph.block.outputs) if value in doubted}
    if not doubtful:
        return frozenset()
    with torch.random.fork_rng(devices=()), torch.no_grad():
        first = _run(graph, inputs, 0)
        for seed in range(1, MAX_RUNS):
            if doubtful == unsure:
                break
            other = _run(graph, inputs, seed)
            unsure |= {index for index in doubtful if not is_same(first[index], other[index])}
    return frozenset(unsure)


def _run(graph: Graph, inputs: Sequence[torch.Tensor], seed: int) -> list[Any]:
    torch.manual_seed(seed)
    return _Filled(mutates(graph.block), seed % 2).run(graph.block, inputs)


class _Filled(Interpreter):
    """Runs a graph with all uninitialized memory set to a number."""

    def __init__(self, mutates: bool, filling: int) -> None:
        super().__init__(mutates)
        self._filling = filling

    def step(self, node: Node, arguments: dict[str, Any]) -> list[Any]:
        results = super().step(node, arguments)
        return [result.fill_(self._filling) for result in results] if node.op in UNINITIALIZED else results


def is_random(node: Node) -> bool:
    """Whether a node draws random numbers or returns uninitialized memory."""
    return node.op in UNINITIALIZED or _draws(node)


def _draws(node: Node) -> bool:
    """Dropout draws only in training; inside attention and between recurrent layers, only if its rate is not 0."""
    if node.op in RANDOM_OPERATORS or node.op.rstrip("_") in RANDOM_OPERATORS:
        return node.inputs.get("train", node.inputs.get("training", True)) is not False
    rate = node.inputs.get("dropout_p", node.inputs.get("dropout", 0))
    single = node.inputs.get("num_layers") == 1
    return rate not in (None, 0) and not single and node.inputs.get("train", True) is not False


def _depending(block: Block, origin: Callable[[Node], bool]) -> set[Value]:
    """All values of the block that depend on a node of this kind."""
    found: set[Value] = set()
    for node in block.nodes:
        inner = any(origin(n) or found.intersection(n.values()) for b in node.blocks for n in b.all_nodes())
        if inner or origin(node) or any(value in found for value in node.values()):
            found.update(node.outputs)
    return found
