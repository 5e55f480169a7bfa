"""Which translation counts: registered ones over built-in ones, by opset, until they are taken back."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn

import onnxport
from tests.symbolic.harness import check, export, operators, ops, registered

X = torch.randn(3, 4)


@pytest.fixture(autouse=True)
def _library() -> Iterator[None]:
    with operators(("scale(Tensor x, float by, int[] axes=[0], *, str mode='plain') -> Tensor", _scale)):
        yield


def _scale(x: torch.Tensor, by: float, axes: list[int] = [0], *, mode: str = "plain") -> torch.Tensor:  # noqa: B006
    return x * by


def scaled(x: torch.Tensor) -> torch.Tensor:
    result: torch.Tensor = torch.ops.lab.scale(x, 2.5)
    return result


def symbolic(g: Any, x: Any, by: Any, axes: Any, mode: Any) -> Any:
    assert onnxport.symbolic_helper._get_const(axes, "is", "axes") == [0]
    assert onnxport.symbolic_helper._get_const(mode, "s", "mode") == "plain"
    return g.op("Mul", x, by)


def test_an_operator_of_the_user_is_read_with_its_schema() -> None:
    with registered("lab::scale", symbolic):
        program = export(scaled, X, dynamic_axes={"x": [0]})
    assert ops(program) == ["Mul"]
    check(program, scaled, torch.randn(7, 4))


@pytest.mark.parametrize(("opset", "expected"), [(8, None), (9, "Abs"), (12, "Abs"), (13, "Neg"), (20, "Neg")])
def test_the_newest_registration_not_above_the_opset_counts(opset: int, expected: str | None) -> None:
    newer = registered("aten::elu", lambda g, x, *_: g.op("Neg", x), 13)
    with newer, registered("aten::elu", lambda g, x, *_: g.op("Abs", x), 9):
        program = onnxport.export(nn.ELU(), X, opset_version=opset, verify=False)
    assert ops(program) == [expected or "Elu"]


def test_removal_restores_what_was_there() -> None:
    def exported() -> list[str]:
        return ops(onnxport.export(nn.GELU(), X, verify=False))

    before = exported()
    with registered("::gelu", lambda g, x, approximate: g.op("Neg", x)):
        with registered("::gelu", lambda g, x, approximate: g.op("Abs", x)):
            assert exported() == ["Abs"]
        assert exported() == ["Neg"]
    assert exported() == before
    onnxport.unregister_custom_op_symbolic("::gelu", 9)
    assert exported() == before


def test_one_overload_alone() -> None:
    def model(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x.max(), x.max(0).values

    with registered("aten::max.dim", lambda g, x, dim, keepdim: (g.op("Neg", x), g.op("ArgMax", x))):
        found = ops(onnxport.export(model, X, verify=False))
    assert "Neg" in found and "ReduceMax" in found


def test_an_operator_that_gives_its_argument_is_the_users_too() -> None:
    with registered("aten::contiguous", lambda g, x, memory_format: g.op("Identity", g.op("Neg", x))):
        program = onnxport.export(lambda x: x.contiguous() + 1, X, verify=False)
    assert "Neg" in ops(program)


def test_a_function_for_an_older_schema_gets_what_it_takes() -> None:
    with registered("aten::gelu", lambda g, x: g.op("Gelu", x)):
        check(export(nn.GELU(), X), nn.GELU(), torch.randn(3, 4))
        with pytest.raises(TypeError, match="positional argument"):
            onnxport.export(nn.GELU(approximate="tanh"), X)


def test_converters_get_python_values_by_name() -> None:
    @onnxport.converter("lab::scale", since=13)
    def scale(g: Any, x: Any, by: float, axes: list[int]) -> Any:
        """A translation."""
        assert (by, axes, x.dtype, x.shape) == (2.5, [0], torch.float32, (3, 4))
        return g.op("Mul", x, by)

    try:
        check(export(scaled, X), scaled, torch.randn(3, 4))
        with pytest.raises(onnxport.UnsupportedOperatorError):
            onnxport.export(scaled, X, opset_version=12)
        with pytest.raises(onnxport.CustomOperatorError, match="mode='other' is given, and the converter does not"):
            onnxport.export(lambda x: torch.ops.lab.scale(x, 1.0, mode="other"), X)
        assert callable(scale) and scale.__doc__ == "A translation."
    finally:
        scale.unregister()
    with pytest.raises(onnxport.UnsupportedOperatorError, match=r"lab::scale.*first in .*test_registration.py:\d+"):
        onnxport.export(scaled, X)


def test_a_number_known_at_run_time_arrives_as_a_value() -> None:
    @onnxport.converter("lab::scale")
    def scale(g: Any, x: Any, by: Any, axes: Any, mode: str) -> Any:
        return g.op("Mul", x, g.cast(by, torch.float32))

    def model(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = torch.ops.lab.scale(x, float(y.shape[0]))
        return result

    try:
        program = export(model, X, torch.randn(5), dynamic_axes={"y": {0: "n"}})
        check(program, model, X, torch.randn(9))
    finally:
        scale.unregister()


def test_an_export_is_not_changed_by_registrations_in_other_threads() -> None:
    stop = threading.Event()

    def register() -> None:
        while not stop.is_set():
            with registered("aten::tanh", lambda g, x: g.op("Tanh", x)):
                pass

    thread = threading.Thread(target=register)
    thread.start()
    try:
        for _ in range(5):
            assert ops(export(nn.Tanh(), X)) == ["Tanh"]
    finally:
        stop.set()
        thread.join()
    assert not onnxport.symbolic_registry.is_registered_op("tanh", "", 20)


def test_the_registry_of_old_projects() -> None:
    onnxport.symbolic_registry.register_op("elu", lambda g, x, *_: g.op("Neg", x), "", 11)
    try:
        assert ops(onnxport.export(nn.ELU(), X, verify=False)) == ["Neg"]
    finally:
        onnxport.symbolic_registry.unregister_op("elu", "", 11)
    assert ops(export(nn.ELU(), X)) == ["Elu"]


@pytest.mark.parametrize("name", ["gelu", "a::b::c", "aten::", "", None])
def test_names_are_checked(name: Any) -> None:
    with pytest.raises(onnxport.OptionError, match="namespace::name"):
        onnxport.register_custom_op_symbolic(name, lambda g: None, 9)


def test_functions_and_opsets_are_checked() -> None:
    with pytest.raises(TypeError, match="callable"):
        onnxport.register_custom_op_symbolic("lab::scale", "no function", 9)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="int"):
        onnxport.register_custom_op_symbolic("lab::scale", symbolic, "9")  # type: ignore[arg-type]
    with pytest.raises(onnxport.OptionError, match="missing"):
        onnxport.converter()
