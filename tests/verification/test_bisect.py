"""A wrong result is traced to the operator, pass or line that makes it."""

from __future__ import annotations

import pathlib
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import onnxport
from onnxport.lower.builder import Builder
from onnxport.lower.value import Value
from onnxport.optimize import FuseGemm
from onnxport.verification.bisect import pieces
from onnxport.verification.mismatch import Cause
from onnxport.verification.runtime import Session
from tests.recording import is_recorded
from tests.verification.faults import count_sessions, put_in

OPERATORS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "aten::elu": F.elu,
    "aten::tanh": torch.tanh,
    "aten::softmax": lambda x: x.softmax(-1),
    "aten::layer_norm": lambda x: F.layer_norm(x, (6,)),
    "aten::gelu": F.gelu,
    "aten::cumsum": lambda x: 0.1 * x.cumsum(1),
    "aten::flip": lambda x: x.flip(1),
    "aten::clamp": lambda x: x.clamp(-0.5, 0.7),
    "aten::mean": lambda x: x.mean(1, keepdim=True),
    "aten::sort": lambda x: x.sort(-1).values,
    "aten::where": lambda x: torch.where(x > 0, x, 0.1 * x),
    "aten::max_pool1d": lambda x: F.max_pool1d(x, 3, 1, 1),
}


class Step(nn.Module):
    def __init__(self, operator: str) -> None:
        super().__init__()
        self.operator = operator

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 0.1 * OPERATORS[self.operator](x) - 0.05 * x


def generated() -> nn.Sequential:
    """A model of some five hundred nodes in which each of the operators occurs about ten times, in a mixed order."""
    generator = torch.Generator().manual_seed(0)
    names = list(OPERATORS) * 10
    order = torch.randperm(len(names), generator=generator).tolist()
    return nn.Sequential(*(Step(names[place]) for place in order), nn.Linear(6, 3)).eval()


def mismatch_of(model: Callable[..., object], *args: torch.Tensor, **options: object) -> onnxport.Mismatch:
    with pytest.raises(onnxport.VerificationError) as error:
        onnxport.export(model, args, **options)  # type: ignore[arg-type]
    found = error.value.mismatch
    assert isinstance(found, onnxport.Mismatch)
    assert str(found) in str(error.value)
    return found


@pytest.mark.parametrize("operator", OPERATORS)
def test_a_fault_is_found_at_its_operator(operator: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = generated()
    places = [place for place, step in enumerate(model) if isinstance(step, Step) and step.operator == operator]
    place = places[len(places) // 2]
    put_in(monkeypatch, operator, lambda g, y: g.op("Mul", y, 1.05), scope=str(place))
    sessions = count_sessions(monkeypatch)
    found = mismatch_of(model, torch.randn(2, 4, 6), dynamic_axes={"input": {0: "batch"}})
    assert found.cause is Cause.CONVERTER and found.operator == operator
    assert found.module == f"Sequential/Step[{place}]"
    assert found.location is not None and "test_bisect.py:" in found.location
    assert found.translation is not None and "faults.py:" in found.translation
    assert found.contrast is not None and found.contrast.kind == "values" and found.contrast.differing > 0
    assert found.contrast.max_rel == pytest.approx(0.05, rel=1e-3)
    # One for the check, one for the file step by step, and one for all values: the model is small.
    assert sessions[0] == 3


def test_memory_is_bounded_by_running_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "PIECE_BYTES", 20_000)
    put_in(monkeypatch, "aten::softmax", lambda g, y: g.op("Mul", y, 1.1), scope="100")
    model = generated()
    model[100] = Step("aten::softmax")
    sessions = count_sessions(monkeypatch)
    found = mismatch_of(model, torch.randn(2, 4, 6))
    assert (found.operator, found.module) == ("aten::softmax", "Sequential/Step[100]")
    assert 5 < sessions[0] < 50


def test_nan_is_a_case_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    put_in(monkeypatch, "aten::exp", lambda g, y: g.op("Log", g.op("Sub", y, 1.0)))
    found = mismatch_of(lambda x: torch.exp(x) * 2, torch.randn(3, 4))
    assert found.operator == "aten::exp"
    assert found.contrast is not None and found.contrast.kind == "special"
    assert found.contrast.actual.nans > 0 and found.contrast.expected.nans == 0
    assert "NaN" in str(found)


def test_infinity_in_place_of_the_largest_number(monkeypatch: pytest.MonkeyPatch) -> None:
    put_in(monkeypatch, "aten::relu", lambda g, y: g.op("Div", y, 0.0))
    found = mismatch_of(lambda x: torch.relu(x) + 1, torch.rand(3, 4) + 1)
    assert found.contrast is not None and found.contrast.kind == "special"
    assert found.contrast.actual.infinities == 12


def by_length(g: Builder, y: Value) -> Value:
    """Right where the first axis has four elements."""
    length = g.cast(g.op("Gather", g.op("Shape", y), g.constant(0, torch.int64), axis=0), torch.float32)
    return g.op("Mul", y, g.op("Div", length, 4.0))


def test_a_fault_that_shows_at_another_size_only(monkeypatch: pytest.MonkeyPatch) -> None:
    put_in(monkeypatch, "aten::cumsum", by_length)
    found = mismatch_of(lambda x: x.cumsum(0).tanh(), torch.randn(4, 3), dynamic_axes={"x": {0: "n"}})
    assert found.cause is Cause.CONVERTER and found.operator == "aten::cumsum"
    assert found.sizes["n"] != 4 and f"n={found.sizes['n']}" in str(found)
    assert found.contrast is not None and found.contrast.expected.shape == (found.sizes["n"], 3)


def test_where_the_runtime_stops_at_another_size(monkeypatch: pytest.MonkeyPatch) -> None:
    put_in(monkeypatch, "aten::tanh", lambda g, y: g.op("MatMul", g.constant(torch.eye(4)), y))
    model = nn.Sequential(nn.ReLU(), nn.Tanh(), nn.ReLU())
    sessions = count_sessions(monkeypatch)
    found = mismatch_of(model, torch.randn(4, 3), dynamic_axes={"input": {0: "n"}})
    assert found.cause is Cause.STOPS and found.operator == "aten::tanh" and found.sizes["n"] != 4
    assert found.module == "Sequential/Tanh[1]" and "MatMul" in str(found)
    assert sessions[0] < 10


def test_a_model_that_the_runtime_does_not_load(monkeypatch: pytest.MonkeyPatch) -> None:
    put_in(monkeypatch, "aten::tanh", lambda g, y: g.typed(g.op("Shape", y), torch.float32, (4, 3)))
    with pytest.raises(onnxport.VerificationError) as error:
        onnxport.export(lambda x: x.relu().tanh() + 1, torch.randn(4, 3), enable_onnx_checker=False)
    assert error.value.mismatch.cause is Cause.STOPS and error.value.mismatch.operator == "aten::tanh"


def test_a_wrong_shape_is_found_where_it_arises(monkeypatch: pytest.MonkeyPatch) -> None:
    put_in(monkeypatch, "aten::tanh", lambda g, y: g.op("ReduceSum", y, [0], keepdims=1))
    found = mismatch_of(lambda x: x.tanh() @ torch.ones(3, 3) + x, torch.randn(4, 3))
    assert found.operator == "aten::tanh" and found.contrast is not None and found.contrast.kind == "shape"


@pytest.mark.parametrize("says_so", [True, False])
def test_an_optimisation_is_told_from_a_converter(says_so: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    right = FuseGemm.call

    def wrong(self: FuseGemm, model: ir.Model) -> ir.passes.PassResult:
        result = right(self, model)
        for node in model.graph:
            if node.op_type == "Gemm" and (node.name or "").startswith("1/"):
                node.attributes["alpha"] = ir.AttrFloat32("alpha", 1.25)
        return ir.passes.PassResult(model, modified=result.modified or says_so)

    monkeypatch.setattr(FuseGemm, "call", wrong)
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 2))
    found = mismatch_of(model, torch.randn(2, 3))
    assert found.cause is Cause.OPTIMISATION and found.operator == "aten::linear"
    assert found.module == "Sequential/Linear[1]"
    assert found.translation is not None and "FuseGemm" in found.translation and "gemm.py:" in found.translation
    assert found.contrast is not None and found.contrast.expected.shape == (2, 4)


def test_a_capture_that_does_not_follow_the_model() -> None:
    class Differs(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.tanh() + (0.5 if is_recorded() else 0.0)

    assert mismatch_of(Differs(), torch.randn(3)).cause is Cause.CAPTURE


def test_the_runtimes_own_optimisation(monkeypatch: pytest.MonkeyPatch) -> None:
    make, run = Session.__init__, Session.run

    def remember(self: Session, source: bytes, *, optimize: bool = True) -> None:
        make(self, source, optimize=optimize)
        self.optimizes = optimize  # type: ignore[attr-defined]

    def wrong(self: Session, inputs: dict[str, torch.Tensor]) -> list[torch.Tensor]:
        return [output + self.optimizes for output in run(self, inputs)]  # type: ignore[attr-defined]

    monkeypatch.setattr(Session, "__init__", remember)
    monkeypatch.setattr(Session, "run", wrong)
    assert mismatch_of(lambda x: x.tanh(), torch.randn(3)).cause is Cause.RUNTIME


def test_rounding_that_adds_up_is_no_operators_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    put_in(monkeypatch, "aten::relu", lambda g, y: g.op("Mul", y, 1.00005))
    found = mismatch_of(nn.Sequential(*(nn.ReLU() for _ in range(40))), torch.rand(3, 4))
    assert found.cause is Cause.ROUNDING and found.operator == "aten::relu"


def test_a_difference_that_does_not_matter_is_not_blamed(monkeypatch: pytest.MonkeyPatch) -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return torch.where(x.exp() > 1e9, x.sin(), x.cos())

    put_in(monkeypatch, "aten::sin", lambda g, y: g.op("Neg", y))
    put_in(monkeypatch, "aten::cos", lambda g, y: g.op("Mul", y, 1.1))
    assert mismatch_of(model, torch.randn(3, 4)).operator == "aten::cos"


def test_noise_is_told_from_error_by_double_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sum cancels: its rounding error is larger than the result, on both sides and without a fault."""

    class Cancels(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = torch.cat([x * 1e6, -x * 1e6, x * 1e-3], 1).flip(1).sum(1)
            return F.elu(y * 0 + x.mean(1))

    put_in(monkeypatch, "aten::elu", lambda g, y: g.op("Mul", y, 1.1))
    assert mismatch_of(Cancels(), torch.randn(4, 1000)).operator == "aten::elu"


def test_what_follows_random_numbers_is_judged_on_the_runtimes_own(monkeypatch: pytest.MonkeyPatch) -> None:
    put_in(monkeypatch, "aten::cos", lambda g, y: g.op("Mul", y, 1.1))
    found = mismatch_of(lambda x: (torch.randn_like(x).tanh().relu(), x.cos()), torch.randn(3, 4))
    assert found.operator == "aten::cos"


@pytest.mark.parametrize(
    ("dtype", "options"),
    [
        (torch.float16, {}),
        (torch.bfloat16, {}),
        (torch.float32, {"opset_version": 7}),
        (torch.float32, {"export_params": False}),
        (torch.float32, {"keep_initializers_as_inputs": True}),
    ],
)
def test_other_forms_of_the_model(
    dtype: torch.dtype, options: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    put_in(monkeypatch, "aten::tanh", lambda g, y: g.op("Mul", y, 1.5))
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).to(dtype)
    found = mismatch_of(model, torch.randn(5, 3, dtype=dtype), **options)
    assert (found.cause, found.operator, found.module) == (Cause.CONVERTER, "aten::tanh", "Sequential/Tanh[1]")


def test_numbers_that_python_computed_follow_the_size(monkeypatch: pytest.MonkeyPatch) -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        half = int(x.shape[0]) // 2
        return (x[:half] * (1.0 / float(x.shape[0]))).tanh().cos()

    put_in(monkeypatch, "aten::tanh", by_length)
    found = mismatch_of(model, torch.randn(8, 3), dynamic_axes={"x": {0: "n"}})
    assert found.operator == "aten::tanh" and found.contrast is not None
    assert found.contrast.actual.shape == (found.sizes["n"] // 2, 3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_reproducer_runs_both_sides(
    dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    put_in(monkeypatch, "aten::layer_norm", lambda g, y: g.op("Mul", y, 3.0))
    model = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.Tanh()).to(dtype)
    found = mismatch_of(model, torch.randn(2, 3, dtype=dtype))
    script = found.save_reproducer(tmp_path / "made" / "here")
    assert sorted(path.name for path in script.parent.iterdir()) == ["operator.onnx", "reproducer.npz", "reproducer.py"]
    assert all(array.size <= 8 for array in np.load(script.parent / "reproducer.npz").values())
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    assert found.contrast is not None
    assert f"largest difference {found.contrast.max_abs:g}" in done.stdout


def test_a_warning_names_the_operator_too(monkeypatch: pytest.MonkeyPatch) -> None:
    put_in(monkeypatch, "aten::tanh", lambda g, y: g.op("Neg", y))
    with pytest.warns(onnxport.VerificationWarning, match=r"aten::tanh in .* at .*test_bisect\.py:"):
        program = onnxport.export(lambda x: x.tanh(), torch.randn(3), verify="warn")
    assert not program.verification.passed and any("aten::tanh" in warning for warning in program.report.warnings)


class Scripted(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = []
        for i in range(x.size(0)):
            row = x[i].relu()
            rows.append(row.tanh() if bool(row.sum() > 1) else row.cos())
        return torch.stack(rows).sin()


@pytest.mark.parametrize(("fault", "found_at"), [("aten::tanh", "prim::Loop"), ("aten::sin", "aten::sin")])
def test_a_loop_is_one_step(fault: str, found_at: str, monkeypatch: pytest.MonkeyPatch) -> None:
    put_in(monkeypatch, fault, lambda g, y: g.op("Mul", y, 1.1))
    found = mismatch_of(torch.jit.script(Scripted()), torch.rand(4, 3), dynamic_axes={"x": {0: "n"}})
    assert found.operator == found_at and found.location is not None and "test_bisect.py:" in found.location


class Doubles(torch.autograd.Function):
    @staticmethod
    def forward(ctx: object, x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @staticmethod
    def symbolic(g: Any, x: Any) -> Any:
        return g.op("Add", x, g.op("Neg", x))


def test_the_symbolic_of_an_autograd_function() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return Doubles.apply(x.exp()).cos()  # type: ignore[no-any-return]

    found = mismatch_of(model, torch.randn(4, 3))
    assert found.operator is not None and "Doubles" in found.operator
    assert found.translation is not None and "Doubles.symbolic" in found.translation


def test_inside_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    put_in(monkeypatch, "aten::elu", lambda g, y: g.op("Mul", y, 1.1))
    model = nn.Sequential(nn.Linear(3, 3), nn.Sequential(nn.Tanh(), nn.ELU()))
    found = mismatch_of(model, torch.randn(4, 3), export_modules_as_functions=True)
    assert (found.operator, found.module) == ("aten::elu", "Sequential/Sequential[1]/ELU[1]")


def test_sizes_that_are_computed_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """A size gets its ONNX form where it is first needed; it is still the size that is wrong."""
    put_in(monkeypatch, "aten::floor_divide", lambda g, y: g.op("Add", y, 1))
    found = mismatch_of(
        lambda x: x.tanh()[: torch.floor_divide(x.shape[0], 3)].cos(), torch.randn(8, 3), dynamic_axes={"x": {0: "n"}}
    )
    assert found.operator == "aten::floor_divide"


def test_a_mismatch_is_one_line_for_all_sizes() -> None:
    def model(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x + 1, x * (2 if is_recorded() or x.shape[0] < 3 else 3)

    with pytest.raises(onnxport.VerificationError) as error:
        onnxport.export(model, torch.randn(5), input_names=["x"], dynamic_axes={"x": {0: "n"}})
    lines = [line for line in str(error.value).splitlines() if line.startswith(("at n=", "right at"))]
    assert len([line for line in lines if "output" in line]) == 1 and "also at n=" in lines[0]
    assert lines[1].startswith("right at n=1")
