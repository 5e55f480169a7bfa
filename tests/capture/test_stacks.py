"""Each call of torch runs on a stack of its own while a model is traced: lines, errors and surroundings stay known."""

from __future__ import annotations

import contextvars
import subprocess
import sys
import traceback
import warnings
from collections.abc import Callable

import pytest
import torch
from torch import nn

import onnxport
from onnxport import compat
from onnxport.capture.frozen import Watch
from onnxport.capture.reader import read
from onnxport.capture.state import ModelState

SETTING: contextvars.ContextVar[str] = contextvars.ContextVar("SETTING", default="unset")


def deeply(depth: int, call: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> torch.Tensor:
    return call(x) if depth == 0 else deeply(depth - 1, call, x)


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(lambda x: torch.conv2d(x, x, padding=(1, 1)), id="written-without-the-tracer"),
        pytest.param(lambda x: torch.nn.functional.softmax(x, dim=1), id="inside-a-python-function"),
        pytest.param(lambda x: torch.add(x, 3, alpha=2), id="written-by-the-tracer"),
    ],
)
def test_a_call_has_its_lines_and_the_tracer_few_however_deep_the_model_is(
    call: Callable[[torch.Tensor], torch.Tensor],
) -> None:
    with Watch(ModelState([]), set()) as watch:
        graph = compat.trace_graph(lambda x: deeply(100, call, x), [torch.ones(2, 2, 3, 3)])
    assert all(len(node.sourceRange().splitlines()) <= 2 for node in graph.nodes())
    (made,) = read(graph, stacks=watch.stacks, written=watch.direct.records).records
    lines = [source for source in made.stack if source.function == "deeply"]
    assert len(lines) == 101
    assert {source.file for source in lines} == {__file__}
    assert {source.line for source in lines} == {deeply.__code__.co_firstlineno + 1}


def test_the_model_s_own_error_shows_the_way_to_its_line() -> None:
    class Model(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.matmul(x, torch.ones(7))

    with pytest.raises(RuntimeError, match="size mismatch") as raised:
        onnxport.export(Model(), torch.randn(2, 4))
    frames = traceback.extract_tb(raised.value.__traceback__)
    assert any(frame.filename == __file__ and frame.name == "forward" for frame in frames)


def test_an_operator_of_the_user_s_sees_what_is_set_around_it() -> None:
    seen = []

    @torch.library.custom_op("onnxport_test::asks", mutates_args=())
    def asks(x: torch.Tensor) -> torch.Tensor:
        seen.append(SETTING.get())
        return x.clone()

    class Model(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            token = SETTING.set("inside")
            try:
                return torch.ops.onnxport_test.asks(x) + 1
            finally:
                SETTING.reset(token)

    onnxport.register_custom_op_symbolic("onnxport_test::asks", lambda g, x: g.op("Identity", x), 9)
    try:
        onnxport.export(Model(), torch.randn(2))
    finally:
        onnxport.unregister_custom_op_symbolic("onnxport_test::asks", 9)
    assert set(seen) == {"inside"}


def test_gradient_mode_and_autocast_reach_the_call() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                y = self.linear(x)
            return y.float() if y.dtype == torch.bfloat16 else y * 0

    model, x = Model(), torch.randn(3, 4)
    torch.testing.assert_close(onnxport.export(model, x)(x), model(x).detach(), atol=0.05, rtol=0.05)


def test_a_warning_of_torch_s_is_still_given() -> None:
    class Model(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return nn.functional.softmax(x)  # without dim, which torch warns of

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        onnxport.export(Model(), torch.randn(2, 3))
    assert any("Implicit dimension choice" in str(warning.message) for warning in caught)


FIRST_CALL = """
import torch, onnxport
def forward(x):
    return x * torch.full((2,), 2.0) + torch.tensor([1.0, 2.0]) + x.new_tensor([3.0, 4.0])
assert torch.equal(onnxport.export(forward, torch.ones(2))(torch.ones(2)), torch.tensor([6.0, 8.0]))
"""


def test_a_call_that_torch_sets_up_something_for_the_first_time() -> None:
    subprocess.run([sys.executable, "-c", FIRST_CALL], check=True)
