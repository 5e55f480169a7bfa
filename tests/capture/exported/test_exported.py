"""Programs of torch.export: their axes, names and control flow, at other sizes and on other data."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim
from torch.nn import functional as F
from torch.utils import _pytree as pytree

import onnxport

GENERATOR = torch.Generator().manual_seed(5)
N = Dim("n", min=2, max=64)
X = torch.randn(4, 6, generator=GENERATOR)
OTHER = torch.randn(9, 6, generator=GENERATOR)


def agrees(program: onnxport.Program, exported: Any, *given: Tensor, **keywords: Any) -> None:
    wanted = pytree.tree_leaves(exported.module()(*(tensor.clone() for tensor in given), **keywords))
    got = pytree.tree_leaves(program(*given, **keywords))
    assert len(got) == len(wanted)
    for one, other in zip(got, wanted, strict=True):
        torch.testing.assert_close(torch.as_tensor(one), torch.as_tensor(other), rtol=1e-4, atol=1e-5)


def dims(program: onnxport.Program, index: int = 0) -> list[str | int]:
    shape = program.model_proto.graph.input[index].type.tensor_type.shape
    return [dim.dim_param or dim.dim_value for dim in shape.dim]


def operators(program: onnxport.Program) -> list[str]:
    return [node.op_type for node in program.model_proto.graph.node]


class Layers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(6, 5)
        self.rest = nn.Sequential(nn.ReLU(), nn.Linear(5, 3))
        self.register_buffer("shift", torch.arange(3.0))

    def forward(self, x: Tensor) -> Tensor:
        return self.rest(self.first(x)) + self.shift  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def layers() -> torch.export.ExportedProgram:
    torch.manual_seed(0)
    return torch.export.export(Layers().eval(), (X,), dynamic_shapes={"x": {0: N}})


def test_names_axes_and_ranges(layers: torch.export.ExportedProgram) -> None:
    program = onnxport.export(layers)
    assert dims(program) == ["n", 6]
    graph = program.model_proto.graph
    assert [value.name for value in graph.input] == ["x"]
    assert {"first.weight", "first.bias", "rest.1.weight", "rest.1.bias"} <= {t.name for t in graph.initializer}
    assert [node.name for node in graph.node][:3] == ["first/Gemm", "rest.0/Relu", "rest.1/Gemm"]
    assert all(2 <= size["n"] <= 64 for size in program.report.sizes_traced)
    agrees(program, layers, OTHER)


def test_the_export_is_that_of_the_model(layers: torch.export.ExportedProgram) -> None:
    torch.manual_seed(0)
    direct = onnxport.export(Layers().eval(), X, dynamic_axes={"x": {0: "n"}}, input_names=["x"])
    assert operators(onnxport.export(layers)) == operators(direct)


def test_arguments_of_the_call_come_first(layers: torch.export.ExportedProgram) -> None:
    program = onnxport.export(layers, torch.ones(3, 6), input_names=["given"], dynamic_axes={"given": {0: "rows"}})
    assert dims(program) == ["rows", 6]
    shapes = {"x": {0: Dim("many", min=3, max=9)}}
    assert dims(onnxport.export(layers, (X,), dynamic_shapes=shapes)) == ["many", 6]


def test_static_programs() -> None:
    exported = torch.export.export(Layers(), (X,))
    program = onnxport.export(exported, opset_version=13)
    assert dims(program) == [4, 6]
    agrees(program, exported, torch.randn(4, 6, generator=GENERATOR))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (torch.ones(4, 7), r"shape \[.*, 6\] for 'x', not \[4, 7\]"),
        (torch.ones(4, 6, dtype=torch.int64), "float32"),
        (torch.ones(1, 6), "outside its range 2 to 64"),
        ((X, X), "args"),
    ],
    ids=["size", "dtype", "range", "count"],
)
def test_what_the_program_was_not_made_for(layers: torch.export.ExportedProgram, given: Any, said: str) -> None:
    with pytest.raises(onnxport.ExportError, match=said):
        onnxport.export(layers, given)


def test_names_of_axes_without_a_name() -> None:
    class Sum(nn.Module):
        def forward(self, a: Tensor, b: Tensor) -> Tensor:
            return a + b * a.shape[0]

    exported = torch.export.export(Sum(), (X, X), dynamic_shapes={"a": {0: Dim.AUTO}, "b": {0: Dim.DYNAMIC}})
    program = onnxport.export(exported)
    assert dims(program) == dims(program, 1) == ["a_dim_0", 6]
    agrees(program, exported, OTHER, OTHER + 1)


def test_axes_that_follow_from_others() -> None:
    class Halves(nn.Module):
        def forward(self, x: Tensor) -> Any:
            return x.reshape(-1, 2, 6), torch.chunk(x, 2)[0]

    exported = torch.export.export(Halves(), (X,), dynamic_shapes={"x": {0: 2 * Dim("half", max=40)}})
    program = onnxport.export(exported)
    assert dims(program) == ["2*half", 6]
    agrees(program, exported, torch.randn(14, 6, generator=GENERATOR))


def test_nested_arguments_and_keywords() -> None:
    class Nested(nn.Module):
        def forward(self, parts: dict[str, Tensor], rows: list[Tensor], *, k: Tensor, scale: float = 2.0) -> Any:
            return {"sum": parts["b"] + parts["a"][0], "rows": [rows[0] * rows[1], k * scale]}

    given = {"b": X, "a": torch.ones(3, 6)}, [X, X * 2]
    shapes: dict[str, Any] = {"parts": {"b": {0: N}, "a": {0: Dim("m")}}, "rows": [{0: N}, {0: N}]}
    shapes |= {"k": {0: N}, "scale": None}
    exported = torch.export.export(Nested(), given, {"k": X, "scale": 3.0}, dynamic_shapes=shapes)
    program = onnxport.export(exported)
    assert [dims(program, index)[0] for index in range(5)] == ["n", "m", "n", "n", "n"]
    other = {"b": OTHER, "a": torch.ones(5, 6)}, [OTHER, OTHER + 1]
    wanted = exported.module()(*other, k=OTHER, scale=3.0)
    got = program(*other, k=OTHER, scale=3.0)
    pytree.tree_map(lambda one, two: torch.testing.assert_close(torch.as_tensor(one), two), got, wanted)
    with pytest.raises(onnxport.OptionError, match=r"exported with scale=3\.0"):
        onnxport.export(exported, given, kwargs={"k": X, "scale": 4.0})


class Sized(nn.Module):
    def forward(self, x: Tensor) -> Any:
        rows = x.shape[0]
        image = x[None, None]
        return (
            x.reshape(rows * 2, -1),
            x[: rows - 1],
            torch.arange(rows * 2) + rows,
            torch.zeros(rows, 2, dtype=torch.bool) | True,
            torch.full((rows,), rows / 2),
            F.interpolate(image, size=(rows * 2, 5)),
            F.pad(x, (0, 0, 1, 2)),
            x.masked_fill(x > 0, True).split([rows - 1, 1]),
            (x > 0).eq(True),
            x.new_ones(rows, 3).expand(2, rows, 3),
        )


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.linear = nn.Linear(8, 5)
        self.layer_norm = nn.LayerNorm(5)
        self.attention = nn.MultiheadAttention(5, 1, batch_first=True)
        self.embedding = nn.Embedding(5, 4)

    def forward(self, x: Tensor) -> Any:
        y = F.max_pool2d(F.gelu(self.norm(self.conv(x[:, None, None].expand(-1, 1, 4, 6)))), 2)
        y = self.layer_norm(self.linear(F.adaptive_avg_pool2d(y, (1, 2)).flatten(1)))
        z = y[None]
        return F.softmax(y, 1), self.embedding(y.argmax(1)), self.attention(z, z, z)[0], F.log_softmax(y, -1)


@pytest.mark.parametrize("decomposed", [False, True], ids=["as it is", "decomposed"])
@pytest.mark.parametrize("model", [Layers, Sized, Network])
def test_operators(model: type[nn.Module], *, decomposed: bool) -> None:
    torch.manual_seed(0)
    exported = torch.export.export(model().eval(), (X,), dynamic_shapes={"x": {0: Dim("n", min=3, max=64)}})
    if decomposed:
        exported = exported.run_decompositions()
    program = onnxport.export(exported)
    agrees(program, exported, OTHER)


@pytest.mark.parametrize("decomposed", [False, True], ids=["as it is", "decomposed"])
def test_what_is_written_in_place(*, decomposed: bool) -> None:
    class Writes(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("count", torch.ones(6))

        def forward(self, x: Tensor) -> Any:
            self.count.mul_(2)
            x.add_(1)
            column = x[:, 0]
            column.mul_(3)
            return x * self.count, column

    exported = torch.export.export(Writes(), (X.clone(),), dynamic_shapes={"x": {0: N}})
    exported = exported.run_decompositions() if decomposed else exported
    program = onnxport.export(exported, X.clone())
    y = (OTHER + 1) * torch.tensor([3.0, 1, 1, 1, 1, 1])
    for got, wanted in zip(program(OTHER), (y * 2, y[:, 0]), strict=True):
        torch.testing.assert_close(torch.as_tensor(got), wanted)
    torch.testing.assert_close(exported.state_dict["count"], torch.ones(6))


class Branches(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.left = nn.Linear(6, 4)
        self.right = nn.Linear(6, 4)

    def forward(self, x: Tensor) -> Any:
        y = torch.cond(x.sum() > 0, self.left, lambda x: self.right(x).relu(), (x,))
        y[:, 0] = 5.0
        return y, torch.cond(x.shape[0] > 5, lambda x: x + 1, lambda x: x * 2, (x,))


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("decomposed", [False, True])
def test_branches(*, strict: bool, decomposed: bool) -> None:
    torch.manual_seed(0)
    exported = torch.export.export(Branches(), (X,), dynamic_shapes={"x": {0: N}}, strict=strict)
    exported = exported.run_decompositions() if decomposed else exported
    program = onnxport.export(exported)
    assert operators(program).count("If") == 2
    for given in (torch.rand(9, 6), -torch.rand(9, 6), torch.rand(3, 6), -torch.rand(5, 6)):
        agrees(program, exported, given)


def test_autocast_and_gradients() -> None:
    class Modes(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(6, 4)

        def forward(self, x: Tensor) -> Any:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                y = self.linear(x)
            with torch.no_grad():
                z = self.linear(x)
            return y, z

    exported = torch.export.export(Modes(), (X,), dynamic_shapes={"x": {0: N}})
    program = onnxport.export(exported)
    low, full = (torch.as_tensor(result) for result in program(OTHER))
    wanted = exported.module()(OTHER)
    assert low.dtype == torch.bfloat16
    torch.testing.assert_close(low, wanted[0], rtol=2e-2, atol=2e-2)
    torch.testing.assert_close(full, wanted[1], rtol=1e-4, atol=1e-5)


def test_sizes_that_depend_on_data() -> None:
    class Counts(nn.Module):
        def forward(self, x: Tensor, k: Tensor) -> Any:
            count = k.item()
            torch._check(count >= 1)
            torch._check(count <= x.shape[0])
            return x[:count], torch.zeros(count, 2), x[x[:, 0] > 0]

    exported = torch.export.export(Counts(), (X, torch.tensor(3)), dynamic_shapes={"x": {0: N}, "k": None})
    program = onnxport.export(exported)
    for k in (1, 2, 7):
        agrees(program, exported, OTHER, torch.tensor(k))


def test_files_are_verified_against_programs(layers: torch.export.ExportedProgram, tmp_path: Path) -> None:
    onnxport.export(layers, f=tmp_path / "m.onnx")
    assert onnxport.verify(tmp_path / "m.onnx", layers).passed


def test_lines_of_nodes() -> None:
    program = onnxport.export(torch.export.export(Branches(), (X,)), strip_doc_string=False)
    assert all("test_exported.py:" in node.doc_string for node in program.model_proto.graph.node)


def test_programs_from_files(layers: torch.export.ExportedProgram) -> None:
    file = io.BytesIO()
    torch.export.save(layers, file)
    file.seek(0)
    exported = torch.export.load(file)
    program = onnxport.export(exported)
    assert isinstance(dims(program)[0], str)
    agrees(program, exported, OTHER)


def test_errors_name_the_line_of_the_model() -> None:
    class Unknown(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.linalg.eig(x[:4, :4]).eigenvectors.real

    exported = torch.export.export(Unknown(), (X,))
    with pytest.raises(onnxport.ExportError, match=r"test_exported\.py:\d+"):
        onnxport.export(exported)
