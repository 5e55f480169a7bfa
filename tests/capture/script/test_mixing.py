"""Scripted code called from traced models, scripted models with traced parts, and models from files."""

from __future__ import annotations

import io
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import onnxport
from tests.capture.script.programs import compare

X = torch.randn(4, 3, generator=torch.Generator().manual_seed(1))


@torch.jit.script
def repeated(x: Tensor, n: Tensor) -> Tensor:
    for i in range(int(n)):
        x = x + i
    return x


@torch.jit.script
def signed(x: Tensor, factor: float = 2.0) -> tuple[Tensor, Tensor]:
    if bool(x.sum() > 0):
        return x * factor, x.sum(1)
    return -x, x.mean(1)


@torch.jit.script
def by_rows(x: Tensor) -> Tensor:
    total = torch.zeros(x.size(1))
    for i in range(x.size(0)):
        total = total * 0.5 + x[i]
    return total


class Steps(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 3)
        self.register_buffer("shift", torch.ones(3))

    def forward(self, x: Tensor, n: int) -> Tensor:
        for _ in range(n):
            x = self.fc(x).tanh() + self.shift
        return x


class CallsFunctions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 3)

    def forward(self, x: Tensor, n: Tensor) -> Any:
        x = repeated(self.fc(x), n)
        y, z = signed(x, 3.0)
        return y.sin(), by_rows(y) + z[:1]


class HoldsScript(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.before = nn.Linear(3, 3)
        self.steps = torch.jit.script(Steps())
        self.traced = torch.jit.trace(nn.Linear(3, 5).eval(), torch.zeros(1, 3))

    def forward(self, x: Tensor) -> Tensor:
        return self.traced(self.steps(self.before(x), 20))


class HoldsTrace(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.traced = torch.jit.trace(nn.Sequential(nn.Linear(3, 3), nn.ReLU()).eval(), torch.zeros(1, 3))

    def forward(self, x: Tensor, n: int) -> Tensor:
        for _ in range(n):
            x = self.traced(x)
        return x


def made(kind: type[nn.Module]) -> nn.Module:
    torch.manual_seed(0)
    return kind().eval()


def check(model: Any, example: tuple[Any, ...], others: list[tuple[Any, ...]], **keywords: Any) -> onnxport.Program:
    program = onnxport.export(model, example, **keywords)
    assert program.verification.passed
    for inputs in (example, *others):
        expected = model(*inputs)
        compare(expected, [o.numpy() for o in flat(program(*[torch.as_tensor(i) for i in inputs]))])
    return program


def flat(result: Any) -> list[Tensor]:
    return [result] if isinstance(result, Tensor) else list(result)


def test_a_traced_model_calls_scripted_functions() -> None:
    others = [(X, torch.tensor(0)), (-X - 9, torch.tensor(4)), (X + 9, torch.tensor(1))]
    program = check(made(CallsFunctions), (X, torch.tensor(2)), others)
    assert {"Loop", "If"} <= {node.op_type for node in program.model.graph.all_nodes()}


def test_scripted_functions_see_dynamic_axes() -> None:
    names = {"input_names": ["x", "n"], "dynamic_axes": {"x": {0: "batch"}}}
    others = [(torch.randn(size, 3), torch.tensor(n)) for size, n in ((1, 1), (7, 0), (9, 3))]
    check(made(CallsFunctions), (X, torch.tensor(2)), others, **names)


def test_a_traced_model_holds_scripted_and_traced_modules() -> None:
    model = made(HoldsScript)
    program = check(model, (X,), [(torch.randn(7, 3),)], input_names=["x"], dynamic_axes={"x": [0]})
    names = {value.name for value in program.model.graph.initializers.values()}
    assert {"steps.fc.weight", "steps.shift", "before.weight", "traced.weight"} <= names


def test_a_scripted_model_holds_a_traced_module() -> None:
    check(torch.jit.script(made(HoldsTrace)), (X, 2), [(X, 0), (X, 5)])


@pytest.mark.parametrize("kind", ["script", "trace"])
def test_models_from_files(kind: str) -> None:
    steps = made(Steps)
    scripted: Any = torch.jit.script(steps) if kind == "script" else torch.jit.trace(steps.fc, X)
    file = io.BytesIO()
    torch.jit.save(scripted, file)
    file.seek(0)
    loaded = torch.jit.load(file)
    example, others = ((X, 2), [(X, 0), (X, 5)]) if kind == "script" else ((X,), [(X + 1,)])
    program = check(loaded, example, others)
    assert "fc.weight" in program.model.graph.initializers or "weight" in program.model.graph.initializers


def test_the_same_module_traced_and_scripted_gives_the_same() -> None:
    model = made(Steps)

    def traced(x: Tensor) -> Tensor:
        return model(x, 3)

    scripted = onnxport.export(torch.jit.script(model), (X, 3))
    unrolled = onnxport.export(traced, (X,))
    torch.testing.assert_close(scripted(X, torch.tensor(3)), unrolled(X))


def test_weights_of_a_loop_body_are_stored_once() -> None:
    program = onnxport.export(torch.jit.script(made(Steps)), (X, 3))
    loop = next(node for node in program.model.graph if node.op_type == "Loop")
    assert not loop.attributes["body"].as_graph().initializers
    assert program.report.weight_bytes < 2 * 4 * (9 + 3 + 3)


def test_an_error_shows_the_line() -> None:
    @torch.jit.script
    def keyed(x: Tensor, n: int) -> Tensor:
        found = {0: x}
        for i in range(n):
            found[i] = x + i
        return found[0]

    with pytest.raises(onnxport.ExportError, match=r"test_mixing\.py:\d+"):
        onnxport.export(keyed, (X, 2))


def test_a_branch_that_changes_the_dtype_is_an_error_that_shows_the_line() -> None:
    @torch.jit.script
    def other_dtype(x: Tensor) -> Tensor:
        if bool(x.sum() > 0):
            return x
        return x.to(torch.int64)

    with pytest.raises(onnxport.ExportError, match=r"test_mixing\.py:\d+.*int64"):
        onnxport.export(other_dtype, (X,))


def test_a_model_that_always_raises_is_an_error() -> None:
    @torch.jit.script
    def raising(x: Tensor) -> Tensor:
        if x.dim() > 1:
            raise ValueError("too many dimensions")
        return x

    with pytest.raises(Exception, match="too many dimensions"):
        onnxport.export(raising, (X,))


class Language(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(20, 4)
        self.recurrent = nn.LSTM(4, 5, 2)

    def forward(self, words: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        hidden, state = self.recurrent(self.embedding(words), state)
        return hidden, state


def test_an_lstm_with_dynamic_axes_has_the_nodes_of_the_traced_one() -> None:
    model = made(Language)

    def inputs(time: int, batch: int) -> tuple[Any, ...]:
        return torch.randint(0, 20, (time, batch)), (torch.randn(2, batch, 5), torch.randn(2, batch, 5))

    names = ["words", "h", "c"]
    axes = {"words": {0: "time", 1: "batch"}, "h": {1: "batch"}, "c": {1: "batch"}}
    keywords: dict[str, Any] = {"input_names": names, "dynamic_axes": axes}
    scripted = onnxport.export(torch.jit.script(model), inputs(3, 2), **keywords)
    traced = onnxport.export(model, inputs(3, 2), **keywords)
    assert scripted.report.nodes <= 1.1 * traced.report.nodes
    for size in ((1, 1), (6, 3)):
        given = inputs(*size)
        torch.testing.assert_close(scripted(*given), model(*given))


@torch.jit.script
def table_or_given(query: Tensor, key: Tensor, given: Tensor) -> Tensor:
    if key.size(-2) != query.size(-2):
        return torch.arange(key.size(-2))[:, None]
    return given


def test_a_branch_that_compares_a_size_with_itself_has_one_way() -> None:
    def model(x: Tensor, given: Tensor) -> Tensor:
        return x.sum(-1) + table_or_given(x, x * 2, given).sum()

    names = {"input_names": ["x", "given"], "dynamic_axes": {"x": {0: "batch", 1: "sequence"}}}
    given = torch.arange(8).reshape(2, 2, 2)
    others = [(torch.randn(1, 9, 3), given), (torch.randn(5, 2, 3), given + 1)]
    program = check(model, (torch.randn(2, 4, 3), given), others, **names)
    assert "If" not in {node.op_type for node in program.model.graph.all_nodes()}


@torch.jit.script
def gated(x: Tensor, count: Tensor) -> Tensor:
    return torch.tanh(x[:, :count]) * torch.sigmoid(x[:, count:])  # type: ignore[misc]


def test_a_scripted_function_is_given_a_constant_as_a_number() -> None:
    def model(x: Tensor) -> Tensor:
        return gated(x, torch.IntTensor([3])[0])

    names = {"input_names": ["x"], "dynamic_axes": {"x": {0: "batch"}}}
    check(model, (torch.randn(2, 6),), [(torch.randn(5, 6),)], **names)


@torch.jit.script
def counted(x: Tensor, count: Tensor) -> Tensor:
    count.add_(1)
    return x[:, : int(count)]


def test_a_constant_that_a_script_writes_to_is_read_as_it_is_then() -> None:
    def model(x: Tensor) -> Tensor:
        return counted(x, torch.tensor(1))

    check(model, (torch.randn(2, 6),), [(torch.randn(2, 6),)])


def test_an_assertion_that_is_dropped_is_noted() -> None:
    @torch.jit.script
    def checked(x: Tensor) -> Tensor:
        assert bool(x.sum() > -100), "too small"
        return x + 1

    report = onnxport.export(checked, (X,)).report
    assert any("test_mixing.py" in note and "not part of the file" in note for note in report.notes)


@torch.jit.script
def grown(x: Tensor, n: Tensor) -> Tensor:
    return torch.cat([x, torch.zeros(int(n), x.size(1))])


class CutBesideAScript(nn.Module):
    """The script needs more points than there are traces, which are repeated for it."""

    def forward(self, x: Tensor, n: Tensor) -> Any:
        return grown(x, n) + 1, x[:, :10] * 2


class NumberBesideAScript(nn.Module):
    def forward(self, x: Tensor, n: Tensor) -> Any:
        half = int(x.shape[1] * 0.5) + 1
        return grown(x, n) * half, x + half


@pytest.mark.parametrize("model", [CutBesideAScript(), NumberBesideAScript()], ids=lambda model: type(model).__name__)
def test_sizes_beside_a_script_with_run_time_numbers(model: nn.Module) -> None:
    program = onnxport.export(model, (X, torch.tensor(4)), input_names=["x", "n"], dynamic_axes={"x": {1: "k"}})
    for k, n in ((2, 5), (7, 0), (13, 1)):
        given = torch.randn(4, k), torch.tensor(n)
        torch.testing.assert_close(program(*given), model(*given))


@torch.jit.script
def squeezed(x: Tensor) -> Tensor:
    return x.squeeze(1)


class Squeezing(nn.Module):
    def forward(self, x: Tensor) -> Any:
        return squeezed(x) + 1


def test_an_axis_that_a_called_script_would_drop_is_told_of() -> None:
    with pytest.warns(onnxport.TraceWarning, match="the model does something else at k=1 than at k=3"):
        program = onnxport.export(Squeezing(), (X,), dynamic_axes={"x": {1: "k"}})
    given = torch.randn(4, 6)
    torch.testing.assert_close(program(given), Squeezing()(given))
