"""The ONNX project's own backend tests, run on any backend; and those that ONNX Runtime does not pass."""

from __future__ import annotations

import contextlib
import functools
import io
import unittest
import warnings
from pathlib import Path
from typing import Any

import onnx
import onnx.backend.test
import onnxruntime
from onnx.backend.base import Backend, BackendRep

TABLE = Path(__file__).with_name("excluded.txt")

# The models of this category are downloaded.
DOWNLOADED = "OnnxBackendRealModelTest"


class DirectRep(BackendRep):
    """ONNX Runtime and nothing else, for comparison."""

    def __init__(self, model: onnx.ModelProto) -> None:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        self._session = onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        given = inputs if isinstance(inputs, (list, tuple)) else [inputs]
        feeds = {entry.name: value for entry, value in zip(self._session.get_inputs(), given, strict=False)}
        return tuple(self._session.run(None, feeds))


class Direct(Backend):
    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> DirectRep:
        return DirectRep(model)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        return device == "CPU"


def suite(backend: Any) -> dict[str, type[unittest.TestCase]]:
    """The test cases of each category that needs no download."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        cases = onnx.backend.test.BackendTest(backend, __name__).test_cases
    return {name: case for name, case in cases.items() if name != DOWNLOADED}


def names(case: type[unittest.TestCase]) -> list[str]:
    """The tests for the CPU."""
    return [name for name in unittest.TestLoader().getTestCaseNames(case) if not name.endswith("_cuda")]


def problem(case: type[unittest.TestCase], name: str) -> str | None:
    """Why a test does not pass; one that the backend says it is not made for does not."""
    result = unittest.TestResult()
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        case(name).run(result)
    found = [*result.errors, *result.failures, *result.skipped]
    return found[0][1] if found else None


@functools.cache
def excluded() -> dict[str, str]:
    """The table: each test that is not expected to pass, with the reason, which stands above its group."""
    rows: dict[str, str] = {}
    reason = ""
    for line in TABLE.read_text(encoding="utf-8").splitlines():
        if line.startswith("# "):
            reason = line.removeprefix("# ")
        elif line:
            assert line not in rows, f"{line} stands twice in the table"
            rows[line] = reason
    return rows


def depends_on_machine(reason: str) -> bool:
    """Whether another machine may pass the test."""
    return reason.startswith("machine: ")
