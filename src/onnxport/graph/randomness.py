"""Which values depend on random numbers: their content cannot be compared, only their shape and dtype."""

from __future__ import annotations

from onnxport.graph.ir import Block, Node, Value

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
        "empty",
        "empty_like",
        "new_empty",
        "empty_strided",
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


def is_random(node: Node) -> bool:
    """Whether a node draws random numbers (or leaves memory as it found it). Dropout does so in training only."""
    if node.op not in RANDOM_OPERATORS and node.op.rstrip("_") not in RANDOM_OPERATORS:
        return False
    switch = node.inputs.get("train", node.inputs.get("training", True))
    return switch is not False


def random_values(block: Block) -> set[Value]:
    """All values of the block that depend on a random node."""
    found: set[Value] = set()
    _collect(block, found)
    return found


def _collect(block: Block, found: set[Value]) -> None:
    for node in block.nodes:
        inner = any(is_random(n) or found.intersection(n.values()) for b in node.blocks for n in b.all_nodes())
        if inner or is_random(node) or any(value in found for value in node.values()):
            found.update(node.outputs)
