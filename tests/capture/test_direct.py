"""Calls that are written into the trace without the tracer: the graph is the same, and every call knows its line."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

import onnxport
from onnxport import compat
from onnxport.capture.direct import plan_of
from onnxport.capture.frozen import Watch
from onnxport.capture.reader import Record, read
from onnxport.capture.state import ModelState

NAMESPACES = {
    "torch": torch._C._VariableFunctions,
    "nn": torch._C._nn,
    "linalg": torch._C._linalg,
    "fft": torch._C._fft,
    "tensor": torch.Tensor,
}
X = torch.rand(3, 3)
PATTERNS: list[tuple[Any, ...]] = [
    (X,), (X, X), (X, X, X), (X, 1), (X, 0.5), (X, (1, 1)), ([X, X],), ([X, X], 0), (X, 1, True), (X, X, None, 1)
]  # fmt: skip


def records(function: Callable[..., Any], *tensors: torch.Tensor) -> tuple[list[Record], int]:
    """What a trace holds of a function, and how many of its calls did not need the tracer."""
    with torch.no_grad(), Watch(ModelState([]), set()) as watch:
        graph = compat.trace_graph(function, tensors)
    return read(graph, stacks=watch.stacks, written=watch.direct.records).records, len(watch.direct.records)


def planned_calls(namespace: Any) -> Iterator[tuple[str, Callable[[torch.Tensor], Any]]]:
    for name in dir(namespace):
        function = getattr(namespace, name)
        for args in PATTERNS if not name.startswith("_") and not name.endswith("_") else ():
            if plan_of(function, args, {}) is None:
                continue

            def call(x: torch.Tensor, function: Any = function, args: tuple[Any, ...] = args) -> Any:
                given = [x if a is X else [x, x] if type(a) is list else a for a in args]
                result = function(*given)
                return result if isinstance(result, torch.Tensor) else tuple(result)

            yield f"{name}{[type(a).__name__ for a in args]}", call


@pytest.mark.parametrize("namespace", NAMESPACES)
def test_a_call_is_one_operator_at_its_line_and_the_same_as_without(namespace: str) -> None:
    tried = 0
    for name, call in planned_calls(NAMESPACES[namespace]):
        with warnings.catch_warnings(), contextlib.suppress(RuntimeError, IndexError, TypeError, NotImplementedError):
            warnings.simplefilter("ignore")
            call(X)  # raises for arguments that do not fit
            made, direct = records(call, X)
            assert direct == 1, name
            assert {record.source.file for record in made if record.source} == {__file__}, name
            assert all(record.source for record in made if record.kind.startswith("aten")), name
            graph = compat.trace_graph(call, [X])
            kinds = [node.kind() for node in graph.nodes() if node.kind().startswith("aten")]
            assert [record.kind for record in made if record.kind.startswith("aten")] == kinds, name
            tried += 1
    assert tried >= 20


class Chain(nn.Module):
    """A layer of each kind that is written without the tracer, at a line of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.scale = nn.Parameter(torch.rand(4, 1, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.relu(self.norm(self.conv(x)))
        y = torch.cat([y, y * self.scale], dim=1)
        y = F.avg_pool2d(y, 2)
        return F.softmax(y, dim=1)


def check(model: Any, x: torch.Tensor, other: torch.Tensor, **options: Any) -> onnxport.Program:
    program = onnxport.export(model, x, input_names=["x"], **options)
    with torch.no_grad():
        expected = model(other)
    result = program(other)
    assert result.dtype == expected.dtype
    torch.testing.assert_close(result, expected, rtol=2e-3, atol=1e-4)
    return program


def test_nodes_are_in_their_modules_at_their_lines() -> None:
    dynamic = {"x": {0: "n", 2: "h"}}
    inputs = torch.rand(2, 3, 8, 8), torch.rand(3, 3, 6, 8)
    program = check(Chain().eval(), *inputs, dynamic_axes=dynamic, strip_doc_string=False)
    first = Chain.forward.__code__.co_firstlineno
    lines = {node.op_type: node.doc_string.rpartition(":")[2] for node in program.model_proto.graph.node}
    assert {op: int(line.split()[0]) - first for op, line in lines.items()} == {
        "Conv": 1, "Relu": 1, "Mul": 2, "Concat": 2, "AveragePool": 3, "Softmax": 4,
    }  # fmt: skip
    assert program.model_proto.graph.node[0].name == "conv/Conv"


def test_a_number_that_follows_a_size_is_seen_in_a_list_of_constants() -> None:
    def pooled(x: torch.Tensor) -> torch.Tensor:
        side = int(x.shape[2])
        return F.avg_pool2d(x, (side, 1)).sum(dim=(1, 2))

    check(pooled, torch.rand(1, 2, 6, 6), torch.rand(1, 2, 9, 6), dynamic_axes={"x": {2: "h"}})


def test_lists_of_another_length_at_another_size_are_refused() -> None:
    def summed(x: torch.Tensor) -> torch.Tensor:
        return torch.sum(x, dim=tuple(range(1 if int(x.shape[0]) > 2 else 2)), keepdim=True)

    with pytest.raises(onnxport.ExportError, match=r"test_direct\.py"):
        onnxport.export(summed, torch.rand(2, 4), input_names=["x"], dynamic_axes={"x": {0: "n"}})


def test_autocast_casts_before_the_operator() -> None:
    weight = torch.rand(4, 4)

    def cast(x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return F.linear(x, weight).float()

    made, direct = records(cast, torch.rand(2, 4))
    assert direct == 0
    assert [record.kind for record in made].index("aten::to") < [record.kind for record in made].index("aten::linear")


def test_in_vmap_each_operator_sees_the_batch() -> None:
    weight = torch.rand(3, 4)

    def mapped(x: torch.Tensor) -> torch.Tensor:
        return torch.vmap(lambda row: F.softmax(torch.mv(weight, row), dim=0))(x)

    check(mapped, torch.rand(2, 4), torch.rand(5, 4), dynamic_axes={"x": {0: "n"}})


class Doubled(torch.autograd.Function):
    """A Function that stays one node: what its forward does is no part of the graph."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return F.relu(torch.cumsum(x, 0)) * 0 + 2 * x

    @staticmethod
    def symbolic(g: Any, x: Any) -> Any:
        return g.op("Add", x, x)


def test_the_forward_of_a_kept_function_leaves_no_constant_behind() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        y = torch.cumsum(x, 1)
        return torch.cumsum(Doubled.apply(y), 0) + torch.cumsum(x, 1)  # type: ignore[no-untyped-call]

    program = check(model, torch.rand(2, 3), torch.rand(2, 3))
    assert [node.op_type for node in program.model_proto.graph.node].count("CumSum") == 2


def test_equal_constants_of_other_types_stay_apart() -> None:
    def model(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        return torch.argmax(x, 1, True), torch.nn.functional.elu(x, 1.0), torch.logsumexp(x, 1, True)

    for result, expected in zip(onnxport.export(model, X)(X), model(X), strict=True):
        torch.testing.assert_close(result, expected)


def test_a_method_of_tensors_has_the_tensor_in_its_place() -> None:
    """The operator ``where`` has the condition first, the method the tensor."""
    made, _ = records(lambda x: x.where(x > 0.5, torch.zeros(())), X)
    assert made[-1].kind == "aten::where"
    check(lambda x: x.where(x > 0.5, torch.zeros(())), X, torch.rand(3, 3))


def test_functions_of_torch_are_as_before_after_an_export() -> None:
    asking = {name: getattr(F, name) for name in compat.functional.ASKING}
    onnxport.export(nn.Sequential(nn.Linear(3, 3), nn.ReLU()), X)

    def fails(x: torch.Tensor) -> torch.Tensor:
        return F.layer_norm(x, (7,))

    with pytest.raises(RuntimeError, match="normalized_shape"):
        onnxport.export(fails, X)
    assert {name: getattr(F, name) for name in compat.functional.ASKING} == asking


class Leaky(TorchFunctionMode):
    """Knows a function of torch.nn.functional, and lets it be another."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return F.leaky_relu(args[0], 0.5) if function is F.relu else function(*args, **(kwargs or {}))


@pytest.mark.parametrize("around", ["the model", "the call"])
def test_modes_of_the_user_are_asked(around: str) -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        with Leaky() if around == "the call" else contextlib.nullcontext():
            return F.relu(x) + 1

    with Leaky() if around == "the model" else contextlib.nullcontext():
        program = onnxport.export(model, X)
    x = torch.tensor([[-2.0, 0.0, 4.0]] * 3)
    torch.testing.assert_close(program(x), F.leaky_relu(x, 0.5) + 1)


def test_a_weight_that_an_embedding_scales_comes_back() -> None:
    """``max_norm`` makes it write to its weight inside torch.nn.functional; the file scales the rows that it reads."""
    layer = nn.Embedding(4, 3, max_norm=0.1)
    before = layer.weight.detach().clone()
    program = onnxport.export(layer, torch.tensor([0, 2]))
    assert torch.equal(layer.weight, before)
    others = torch.tensor([3, 1])
    with torch.no_grad():
        torch.testing.assert_close(program(others), layer(others))


def test_numbers_of_a_list_are_followed_into_functions() -> None:
    """``F.pad`` hands its own call over, ``F.interpolate`` runs and calls others."""

    class Pads(nn.Module):
        def forward(self, x: torch.Tensor, sizes: torch.Tensor) -> torch.Tensor:
            left, right = sizes.tolist()
            return F.pad(x, (left, right, 0, 1))

    class Resizes(nn.Module):
        def forward(self, x: torch.Tensor, sizes: torch.Tensor) -> torch.Tensor:
            return F.interpolate(x, size=sizes.tolist())

    image, others = torch.rand(1, 2, 4, 6), torch.tensor([3, 9])
    for model in (Pads(), Resizes()):
        program = onnxport.export(model, (image, torch.tensor([2, 5])), input_names=["x", "sizes"])
        torch.testing.assert_close(program(image, others), model(image, others))


def test_the_calls_inside_of_attention_are_seen() -> None:
    attention = nn.MultiheadAttention(8, 2, batch_first=True).eval().requires_grad_(False)
    found, direct = records(lambda x: attention(x, x, x)[0], torch.rand(2, 3, 8))
    assert direct > 5
    assert all(record.source is not None for record in found if record.kind.startswith("aten::"))


def test_a_model_may_script_functions_while_it_runs() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        def resized(y: torch.Tensor) -> torch.Tensor:
            return F.interpolate(F.relu(y), scale_factor=2.0)

        return torch.jit.script(resized)(x)

    image = torch.rand(1, 2, 4, 6)
    program = onnxport.export(model, image, input_names=["x"], dynamic_axes={"x": {2: "h"}})
    x = torch.randn(1, 2, 7, 6)
    torch.testing.assert_close(program(x), F.interpolate(x.relu(), scale_factor=2.0))
