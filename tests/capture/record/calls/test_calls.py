"""Calls in a recorded model that stand for more than one operator: scripts, autograd Functions, branches, modules."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn
from torch._higher_order_ops import while_loop

import onnxport

X = torch.randn(4, 6, generator=torch.Generator().manual_seed(0))
DYNAMIC: dict[str, Any] = {"input_names": ["x"], "dynamic_axes": {"x": {0: "n"}}}
SIZES = (2, 5, 9)


def follows(model: Callable[..., Any], *, sizes: tuple[int, ...] = SIZES, **options: Any) -> onnxport.Program:
    """The file gives what the model gives, at other sizes and on other data."""
    program = onnxport.export(model, X, **DYNAMIC, **options)
    for size in sizes:
        for sign in (1, -1):
            given = sign * torch.rand(size, 6)
            torch.testing.assert_close(program(given), model(given.clone()))
    return program


def ops(program: onnxport.Program) -> list[str]:
    return [node.op_type for node in program.model.graph.all_nodes()]


class Pair(NamedTuple):
    first: Tensor
    rows: int


@torch.jit.script
def counts(x: Tensor) -> int:
    return int((x > 0).sum()) + x.size(0)


@torch.jit.script
def mean(x: Tensor) -> float:
    return float(x.mean())


@torch.jit.script
def pair(x: Tensor) -> Pair:
    return Pair(x * 2, x.size(0) * 3)


@torch.jit.script
def listed(x: Tensor) -> list[int]:
    return [x.size(0), x.size(1), 7]


@torch.jit.script
def named(x: Tensor) -> dict[str, Tensor]:
    return {"sum": x.sum(0), "twice": x * 2}


@torch.jit.script
def shifted(x: Tensor, by: int, scale: float = 2.0) -> Tensor:
    return x * scale + by


@torch.jit.script
def doubled(x: Tensor) -> Tensor:
    return x.mul_(2)


@torch.jit.script
def is_large(x: Tensor) -> bool:
    return bool(x.sum() > 1000)


@pytest.mark.parametrize(
    "model",
    [
        lambda x: x * counts(x),
        lambda x: x + mean(x),
        lambda x: pair(x).first.sum(1) + pair(x).rows,
        lambda x: x.new_ones(listed(x)[0], 3) * listed(x)[2],
        lambda x: named(x)["twice"] - named(x)["sum"],
        lambda x: shifted(x, x.shape[0] + 1),
        lambda x: shifted(x, by=len(x), scale=0.5),
        lambda x: torch.zeros(listed(x)[0] * 2, 1) + listed(x)[1],
    ],
    ids=["int", "float", "tuple", "list", "dict", "size-given", "keywords", "size-returned"],
)
def test_scripts_give_and_take_numbers(model: Callable[..., Any]) -> None:
    follows(model)


def test_a_script_writes_to_what_it_is_given() -> None:
    def model(x: Tensor) -> Any:
        y, z = x + 1, torch.ones(6)
        doubled(y[1:])
        return y + doubled(z) - z * 3

    follows(model)


def test_a_truth_that_a_script_returns_is_read() -> None:
    with pytest.warns(onnxport.TraceWarning, match=r"test_calls\.py:\d+"):
        onnxport.export(lambda x: x + 1 if is_large(x) else x - 1, X)


class Counter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(6, 6)
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return self.fc(x) * self.calls  # type: ignore[no-any-return]

    @torch.jit.export
    def twice(self, x: Tensor) -> Tensor:
        return self.forward(self.forward(x))


class Holder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = Counter()

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x)  # type: ignore[no-any-return]


class CallsParts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.script: Any = torch.jit.script(Holder())

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.script(x) + self.script.inner.twice(x)
        return result


def test_methods_of_a_scripted_module_share_its_state() -> None:
    model = CallsParts().eval()
    program = onnxport.export(model, X, **DYNAMIC)
    assert model.script.inner.calls == 0
    assert {"script.inner.fc.weight", "script.inner.fc.bias"} <= set(program.model.graph.initializers)
    given = torch.rand(5, 6)
    expected = CallsParts().eval()
    expected.load_state_dict(model.state_dict())
    torch.testing.assert_close(program(given), expected(given))


def test_scripts_in_other_threads_are_called_as_ever() -> None:
    given, results = torch.rand(3, 6), []

    def model(x: Tensor) -> Any:
        thread = threading.Thread(target=lambda: results.append(counts(given)))
        thread.start()
        thread.join()
        return shifted(x, 1)

    onnxport.export(model, X, verify=False)
    assert results and type(results[0]) is int
    assert type(counts(given)) is int


@pytest.mark.parametrize(
    "model",
    [
        lambda x: torch.cond(x.shape[0] > 4, lambda x: x + 1, lambda x: x * 2, (x,)),
        lambda x: torch.cond(x.sum().item() > 0, lambda x: x + 1, lambda x: x * 2, (x,)),
        lambda x: torch.cond(torch.tensor(x.shape[0]) > 4, lambda x: x + x.shape[0], lambda x: x * 2, (x,)),
        lambda x: x + (x.shape[0] > 0),
    ],
    ids=["size", "item", "tensor-of-size", "bool-in-arithmetic"],
)
def test_conditions_on_numbers(model: Callable[..., Any]) -> None:
    follows(model)


def test_a_number_read_in_a_branch_and_after_it() -> None:
    def model(x: Tensor) -> Any:
        count = (x > 0).sum().item()
        y = torch.cond(x.sum() > 0, lambda x: x * count, lambda x: x - count, (x,))
        return y + count

    follows(model)


def test_what_a_branch_writes_to_parameters_is_undone() -> None:
    class Model(nn.Module):
        seen: Tensor

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("seen", torch.zeros(6))

        def forward(self, x: Tensor) -> Tensor:
            def write(x: Tensor) -> Tensor:
                self.seen.add_(1)
                return x + self.seen

            result: Tensor = torch.cond(x.sum() > 0, write, lambda x: x - self.seen, (x,))
            return result

    model = Model()
    program = onnxport.export(model, -torch.rand(4, 6), **DYNAMIC)
    assert torch.equal(model.seen, torch.zeros(6))
    torch.testing.assert_close(program(torch.ones(3, 6)), torch.full((3, 6), 2.0))


def test_a_loop_whose_bound_is_a_size() -> None:
    def model(x: Tensor) -> Any:
        count = torch.tensor(x.shape[0])
        loop: Any = while_loop
        _, y = loop(lambda i, y: i < count, lambda i, y: (i + 1, y * 0.5 + x.shape[0]), (torch.tensor(0), x * 1))
        return y

    def plain(x: Tensor) -> Tensor:
        y = x * 1
        for _ in range(x.shape[0]):
            y = y * 0.5 + x.shape[0]
        return y

    program = onnxport.export(model, X, **DYNAMIC)
    for size in SIZES:
        given = torch.rand(size, 6)
        torch.testing.assert_close(program(given), plain(given))


class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, factor: Any) -> Any:
        return x[:, ::2] * factor

    @staticmethod
    def symbolic(g: Any, x: Any, factor: Any) -> Any:
        halved = g.op("Slice", x, torch.tensor([0]), torch.tensor([2**31]), torch.tensor([1]), torch.tensor([2]))
        return g.op("Mul", halved, g.op("Cast", factor, to_i=1) if hasattr(factor, "node") else float(factor))


def test_a_function_with_a_symbolic_is_given_a_size() -> None:
    scaled: Any = Scaled
    program = follows(lambda x: scaled.apply(x, x.shape[0]) + x.shape[0])
    assert program.model_proto.graph.output[0].type.tensor_type.shape.dim[0].dim_param == "n"


def test_forks_and_functional_calls() -> None:
    layer = nn.Linear(6, 6)
    other = {name: value.detach() + 1 for name, value in layer.named_parameters()}

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = layer

        def forward(self, x: Tensor) -> Any:
            jit: Any = torch.jit
            waiting = jit.fork(self.layer, x)
            return torch.func.functional_call(self.layer, other, (x,)) + jit.wait(waiting)

    follows(Model())


@torch.jit.script
def twice(x: Tensor) -> Tensor:
    return x * 2


def test_what_a_script_gave_is_not_held() -> None:
    held = []

    def double(x: Tensor) -> Tensor:
        y = twice(x)
        given = weakref.ref(y)
        y = y.reshape(y.shape[0], -1) + 1
        held.append(given())
        return y

    follows(double)
    assert held and not any(isinstance(tensor, Tensor) for tensor in held)
