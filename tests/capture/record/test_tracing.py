"""Functions that ask whether they are traced, in a model that fails if all of them hear that they are."""

from __future__ import annotations

import pathlib
import warnings
from collections.abc import Callable

import onnxruntime
import pytest
import torch
from torch import Tensor

import onnxport


def _is_tracing() -> bool:
    return torch.jit.is_tracing()


def _largest(x: Tensor) -> Tensor:
    """A tracer's sizes are tensors, which ours are not."""
    return torch.stack([x.shape[0]]).max() if _is_tracing() else x.shape[0] + x.sum() * 0  # type: ignore[arg-type]


@torch.jit.script_if_tracing
def _sums(kept: Tensor) -> Tensor:
    sums = torch.zeros(0)
    for i in range(kept.size(0)):
        sums = torch.cat((sums, kept[: i + 1].sum().unsqueeze(0)))
    return sums


@torch.jit.script_if_tracing
def _maximum(kept: Tensor) -> Tensor:
    if kept.numel() == 0:
        return torch.zeros(1)
    return kept.max().unsqueeze(0)


def _by_loop(x: Tensor) -> Tensor:
    kept = x[x > 0]
    if _is_tracing():
        return _sums(kept)
    return torch.stack([kept[: i + 1].sum() for i, _ in enumerate(kept)]) if len(kept) else kept


FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {"loop": _by_loop, "condition": lambda x: _maximum(x[x > 0])}


@pytest.mark.parametrize("dynamic", [True, False], ids=["dynamic", "static"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_that_reads_data_hears_that_it_is_traced(name: str, dynamic: bool, tmp_path: pathlib.Path) -> None:
    def model(x: Tensor) -> Tensor:
        return FUNCTIONS[name](x) + _largest(x)

    file = tmp_path / "model.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("error", onnxport.TraceWarning)
        axes = {"x": {0: "n"}} if dynamic else None
        onnxport.export(model, (torch.tensor([1.0, -1, 2, -2, 3, 4]),), file, input_names=["x"], dynamic_axes=axes)
    session = onnxruntime.InferenceSession(file)
    others = [torch.tensor([5.0, 1, -2, 7, 8, 9]), torch.tensor([-5.0, 1, -2, -7, -8, -9]), -torch.ones(6)]
    for x in [*others, torch.randn(11)] if dynamic else others:
        (result,) = session.run(None, {"x": x.numpy()})
        torch.testing.assert_close(torch.from_numpy(result), model(x))


def _resized(x: Tensor) -> Tensor:
    if not torch.jit.is_scripting() and torch._C._get_tracing_state():
        return x
    y = torch.nn.functional.interpolate(x[None, None], scale_factor=2.0, mode="nearest")[0, 0]
    return y + torch.range(0, 7)  # its values up to 7: eight columns


def test_a_script_compiled_in_forward_calls_functions_that_the_recorder_replaces() -> None:
    def model(x: Tensor) -> Tensor:
        compiled: Tensor = torch.jit.script(_resized)(x)
        return compiled

    program = onnxport.export(model, torch.rand(3, 4), dynamic_axes={"x": [0]})
    x = torch.rand(5, 4)
    torch.testing.assert_close(program(x), _resized(x))


class _Answering(torch.nn.Module):
    """Returns less if it is traced; what `_scaled` does is the same in either case."""

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        y = _scaled(x)
        if not torch.jit.is_tracing():
            return y, x.sum(0)
        return (y,)


def _scaled(x: Tensor) -> Tensor:
    if not torch.jit.is_tracing() and x.shape[0] == 4:
        return x * 2
    return x + x


@pytest.mark.parametrize("dynamic", [True, False], ids=["dynamic", "static"])
def test_a_model_that_returns_less_if_it_is_traced_returns_all(dynamic: bool) -> None:
    axes = {"x": {0: "n"}} if dynamic else None
    model = _Answering()
    program = onnxport.export(model, (torch.randn(4, 3),), input_names=["x"], dynamic_axes=axes)
    assert program.model.graph.num_nodes() == 2  # `_scaled` still hears that it is traced: there is no If
    for rows in (4, 7) if dynamic else (4,):
        x = torch.randn(rows, 3)
        torch.testing.assert_close(program(x), model(x))
