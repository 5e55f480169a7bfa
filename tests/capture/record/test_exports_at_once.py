"""Exports in several threads, and one inside of another: each model hears what its own export answers."""

from __future__ import annotations

import pathlib
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import torch
import torch._dynamo
from torch.nn import functional

import onnxport
from onnxport import compat
from onnxport.capture.record.recorder import Recorder
from tests.capture.record.at_sizes import Function, check

HEARD: list[bool] = []


def note_answer(x: torch.Tensor) -> torch.Tensor:
    HEARD.append(torch.jit.is_tracing())
    return x.reshape(x.shape[0] * 2, -1)


def takes_sizes_for_tensors(x: torch.Tensor) -> torch.Tensor:
    """Where it hears that it is traced, sizes have to be tensors, as they are to torch's tracer."""
    rows = x.shape[0].clone() if torch.jit.is_tracing() else x.shape[0]  # type: ignore[attr-defined]
    return x.reshape(rows * 2, -1)


def export_inner(model: Function, folder: pathlib.Path) -> None:
    args = torch.ones(2, 4)
    onnxport.export(model, (args,), folder / "inner", input_names=["x"], dynamic_axes={"x": {0: "rows"}})


def test_a_model_inside_of_another_hears_its_own_answer(tmp_path: pathlib.Path) -> None:
    heard: list[bool] = []

    def export_another(x: torch.Tensor) -> torch.Tensor:
        export_inner(Function(takes_sizes_for_tensors), tmp_path)
        heard.append(torch.jit.is_tracing())
        return x * 3

    check(export_another, tmp_path)
    assert heard[0], "the outer model's run is recorded first, and there it hears that it is traced"


def test_plain_runs_of_a_model_inside_of_another_are_not_traced(tmp_path: pathlib.Path) -> None:
    heard: list[bool] = []

    def note(x: torch.Tensor) -> torch.Tensor:
        heard.append(torch.jit.is_tracing())
        return x * 2

    def export_another(x: torch.Tensor) -> torch.Tensor:
        heard.clear()
        export_inner(Function(note), tmp_path)
        recorded.append(list(heard))
        return x * 3

    recorded: list[list[bool]] = []
    check(export_another, tmp_path)
    assert recorded[0] == recorded[-1]  # in a recorded run of the outer model, and in a plain one
    assert recorded[0].count(True) == 1


def test_answers_of_two_threads() -> None:
    inside, asked = threading.Event(), threading.Event()
    heard: dict[str, list[bool]] = {"one": [], "other": []}

    def one() -> None:
        with compat.patches.answering_as_traced(lambda asking, scripted: False):
            inside.set()
            asked.wait(10)
            heard["one"].append(torch.jit.is_tracing())

    def other() -> None:
        inside.wait(10)
        with compat.patches.answering_as_traced(lambda asking, scripted: True):
            heard["other"].append(torch.jit.is_tracing())
            asked.set()
            thread.join(10)
            heard["other"].append(torch.jit.is_tracing())  # the first one has left

    thread = threading.Thread(target=one)
    second = threading.Thread(target=other)
    thread.start()
    second.start()
    second.join()
    assert heard == {"one": [False], "other": [True, True]}
    assert not torch.jit.is_tracing()


def test_two_threads_that_need_different_answers(tmp_path: pathlib.Path) -> None:
    HEARD.clear()

    def export(function: Callable[..., torch.Tensor]) -> None:
        folder = tmp_path / function.__name__
        folder.mkdir()
        for _ in range(3):
            check(function, folder)

    with ThreadPoolExecutor() as pool:
        list(pool.map(export, (takes_sizes_for_tensors, note_answer)))
    assert HEARD.count(True) >= 3


def test_recordings_that_overlap() -> None:
    """The one that began first ends first; nothing of either is left."""
    ask, stance = functional.has_torch_function_unary, torch._dynamo.eval_frame._stance
    entered, left = threading.Event(), threading.Event()

    def first() -> None:
        with Recorder(lambda written: None).recording():
            entered.set()
            began.wait(10)

    def second() -> list[str]:
        entered.wait(10)
        recorder = Recorder(lambda written: None)
        with recorder.recording():
            began.set()
            left.wait(10)
            functional.softmax(torch.ones(2, 3), -1)
        return [str(call.op) for call in recorder.record.calls]

    began = threading.Event()
    with ThreadPoolExecutor() as pool:
        one, other = pool.submit(first), pool.submit(second)
        one.result()
        left.set()
        assert other.result()[-1] == "aten.softmax.int"
    assert functional.has_torch_function_unary is ask
    assert torch._dynamo.eval_frame._stance == stance
    torch.jit.script(functional.softmax)
