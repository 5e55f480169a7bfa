"""Scripted modules as objects: what they hold comes back unchanged, and all the forms that torch.jit gives them."""

from __future__ import annotations

import io
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import onnxport
from tests.capture.script.programs import Program, table

X = torch.arange(6.0).view(2, 3)
BATCHES = [(torch.arange(3.0 * n).view(n, 3),) for n in (1, 2, 5)]
BATCH = {"x": {0: "batch"}}


class Stateful(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.calls = 0
        self.last = torch.zeros(1)
        self.history = torch.jit.Attribute([], list[Tensor])
        self.register_buffer("total", torch.zeros(3))

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        self.last.add_(2)
        self.last = self.last + x.sum(0)
        self.history.append(x)
        self.total.add_(x[0])
        return x * self.calls + self.last + len(self.history) + self.total


class Holder(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x)


@pytest.mark.parametrize("hold", [lambda inner: inner, Holder], ids=["scripted", "in a traced module"])
def test_the_state_of_a_scripted_module_comes_back(hold: Any) -> None:
    inner = torch.jit.script(Stateful())
    last = inner.last
    program = onnxport.export(hold(inner), (X,))
    assert program.verification.passed
    assert (inner.calls, inner.history) == (0, [])
    assert inner.last is last and last.tolist() == [0.0]
    assert inner.total.tolist() == [0.0, 0.0, 0.0]
    torch.testing.assert_close(program(X * 2), torch.jit.script(Stateful())(X * 2))


class Repeated(nn.Module):
    """Its methods call themselves ``this``, as Python allows."""

    def __init__(this) -> None:
        super().__init__()
        this.layer = torch.jit.trace(nn.Linear(3, 3), X)
        this.bias = nn.Parameter(torch.ones(3))

    def forward(this, x: Tensor) -> Tensor:
        for _ in range(x.size(0)):
            x = this.layer(x).relu() + this.bias
        return x


def loaded(module: Any) -> Any:
    file = io.BytesIO()
    torch.jit.save(module, file)
    file.seek(0)
    return torch.jit.load(file)


FORMS = {
    "scripted": lambda module: module,
    "loaded": loaded,
    "frozen": torch.jit.freeze,
    "frozen and loaded": lambda module: loaded(torch.jit.freeze(module)),
    "frozen in a traced module": lambda module: Holder(torch.jit.freeze(module)),
}


@pytest.mark.parametrize("form", FORMS)
def test_each_form_of_a_scripted_module(form: str) -> None:
    torch.manual_seed(0)
    module = FORMS[form](torch.jit.script(Repeated().eval()))
    program = onnxport.export(module, (X,), input_names=["x"], dynamic_axes=BATCH)
    for (x,) in BATCHES:
        torch.testing.assert_close(program(x), module(x))


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(3, 4, 3)
        self.norm = nn.BatchNorm2d(4)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.convolution(x)).relu()


def test_operators_for_one_processor_are_named() -> None:
    module = torch.jit.optimize_for_inference(torch.jit.script(Layer().eval()))
    with pytest.raises(onnxport.CaptureError, match=r"optimize_for_inference.*without that call"):
        onnxport.export(module, (torch.randn(1, 3, 8, 8),))


class Ignoring(nn.Module):
    @torch.jit.ignore
    def elsewhere(self, x):  # type: ignore[no-untyped-def]
        return x * 3

    def forward(self, x: Tensor) -> Tensor:
        return self.elsewhere(x) + 1


def test_ignored_code_is_named() -> None:
    with pytest.raises(onnxport.CaptureError, match=r"test_modules\.py:\d+: .* calls elsewhere, .*ignore"):
        onnxport.export(torch.jit.script(Ignoring()), (X,))


@torch.jit.script
def with_a_number(x: Tensor) -> tuple[Tensor, int]:
    return x + 1, x.size(0)


class CallsForANumber(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y, n = with_a_number(x)
        return y * n


def test_a_number_that_a_script_returns_is_followed() -> None:
    program = onnxport.export(CallsForANumber(), (X,), dynamic_axes={"x": {0: "n"}})
    for n in (1, 3, 70):
        given = torch.randn(n, *X.shape[1:])
        torch.testing.assert_close(program(given), CallsForANumber()(given))


class Packed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.LSTM(4, 6)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths)
        return self.layer(packed)[0].data


def test_a_packed_sequence_in_a_script_is_refused() -> None:
    module = torch.jit.script(Packed())
    with pytest.raises(onnxport.CaptureError, match=r"test_modules\.py:\d+: aten::lstm of a packed sequence"):
        onnxport.export(module, (torch.randn(5, 3, 4), torch.tensor([5, 3, 2])))


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.MultiheadAttention(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x, x, x)[0]


class Cells(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.LSTMCell(4, 6)
        self.others = nn.ModuleList([nn.GRUCell(6, 6), nn.GRUCell(6, 6)])

    def forward(self, x: Tensor) -> tuple[Tensor, list[Tensor]]:
        h = c = torch.zeros(x.size(1), 6)
        states = [torch.zeros(x.size(1), 6) for _ in range(2)]
        out: list[Tensor] = []
        for t in range(x.size(0)):
            h, c = self.first(x[t], (h, c))
            y = h
            for i, cell in enumerate(self.others):
                y = cell(y, states[i])
                states[i] = y
            out.append(y)
        return torch.stack(out), states


LONG = {"x": {0: "time", 1: "batch"}}
PROGRAMS = [
    Program("attention", Attention().eval(), (torch.randn(5, 3, 8),), [(torch.randn(2, 4, 8),)], axes=LONG),
    Program("cells", Cells(), (torch.randn(5, 3, 4),), [(torch.randn(1, 2, 4),)], axes=LONG, since=13),
]
test_modules = table(PROGRAMS)


def test_an_optional_number_that_is_given_is_an_input() -> None:
    @torch.jit.script
    def shifted(x: Tensor, by: int | None = None) -> Tensor:
        return x if by is None else x + by

    program = onnxport.export(shifted, (X,), kwargs={"by": 4})
    torch.testing.assert_close(program(X, by=torch.tensor(-2)), X - 2)


def test_numbers_in_a_tuple_are_inputs() -> None:
    @torch.jit.script
    def model(a: tuple[int, Tensor, tuple[float, bool]], b: Tensor) -> tuple[int, Tensor]:
        return a[0] + 1, (a[1] * a[2][0] if a[2][1] else b * a[0])

    program = onnxport.export(model, ((3, X, (0.5, True)), X))
    graph = program.model_proto.graph
    assert [value.name for value in graph.input] == ["a.0", "a.1", "a.2.0", "a.2.1", "b"]
    for given in ((5, X, (1.5, True)), (-2, X + 1, (2.0, False))):
        number, found = program(given, X + 2)
        expected_number, expected = model(given, X + 2)
        assert number == expected_number
        torch.testing.assert_close(found, expected)


@torch.jit.script
class Scale:
    def __init__(self, factor: float, shift: int) -> None:
        self.factor = factor
        self.shift = shift

    def apply(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.factor + self.shift


class HoldsAnObject(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = Scale(0.5, 2)
        self.layer = nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(self.scale.apply(x)) * self.scale.shift


@pytest.mark.parametrize("traced", [False, True])
def test_an_attribute_that_is_an_object_of_a_scripted_class(traced: bool) -> None:
    model = torch.jit.script(HoldsAnObject())
    outer = nn.Sequential(nn.Flatten(1), model) if traced else model
    program = onnxport.export(outer, torch.randn(4, 3), input_names=["x"], dynamic_axes={"x": {0: "n"}})
    for n in (1, 7):
        x = torch.randn(n, 3)
        torch.testing.assert_close(program(x), model(x))
