"""onnxport.backend passes the ONNX project's backend tests wherever ONNX Runtime does; the table says where not."""

from __future__ import annotations

import pytest

import onnxport
from tests.backend.onnx_suite import Direct, depends_on_machine, excluded, names, problem, suite

CATEGORIES = [f"OnnxBackend{kind}ModelTest" for kind in ("Node", "Simple", "PyTorchConverted", "PyTorchOperator")]


@pytest.fixture(scope="module")
def ours() -> dict[str, type]:
    return suite(onnxport.backend)


@pytest.fixture(scope="module")
def direct() -> dict[str, type]:
    return suite(Direct)


def test_categories(ours: dict[str, type]) -> None:
    assert sorted(ours) == sorted(CATEGORIES)


@pytest.mark.parametrize("category", CATEGORIES)
def test_what_is_not_excluded_passes(category: str, ours: dict[str, type]) -> None:
    wrong = {name: problem(ours[category], name) for name in names(ours[category]) if name not in excluded()}
    assert {name: text for name, text in wrong.items() if text} == {}


@pytest.mark.parametrize("category", CATEGORIES)
def test_what_is_excluded_fails_here_and_in_the_runtime_itself(
    category: str, ours: dict[str, type], direct: dict[str, type]
) -> None:
    """A row that starts to pass has to go, and none may hide something that ONNX Runtime can do."""
    rows = [name for name in names(ours[category]) if not depends_on_machine(excluded().get(name, "machine: "))]
    assert [name for name in rows if problem(ours[category], name) is None] == []
    assert [name for name in rows if problem(direct[category], name) is None] == []


def test_every_row_is_a_test(ours: dict[str, type]) -> None:
    known = {name for case in ours.values() for name in names(case)}
    assert sorted(set(excluded()) - known) == []
