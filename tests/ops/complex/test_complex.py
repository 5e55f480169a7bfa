"""Complex numbers: values with a last axis of two in the file."""

from __future__ import annotations

import io
from collections.abc import Callable

import onnx
import pytest
import torch
from torch import Tensor, nn

import onnxport
from tests.ops.harness import PRECISE, B, C, Case, F, I, table


def row(id: str, call: Callable[..., object], *inputs: object, **settings: object) -> Case:
    return Case(id, call, list(inputs), **{"dtypes": PRECISE, **settings})  # type: ignore[arg-type]


Z = C("n", 4, "t")

PARTS = [
    row("view_as_real", torch.view_as_real, Z, graph=["Identity"]),
    row("view_as_complex", torch.view_as_complex, F("n", 3, 2), graph=["Identity"]),
    row("complex", torch.complex, F("n", 3), F("n", 3)),
    row("polar", torch.polar, F("n", 3, low=0), F("n", 3)),
    row("real", lambda z: z.real, Z, graph=["Gather"]),
    row("imag", lambda z: z.imag, Z, graph=["Gather"]),
    row("conj", lambda z: z.conj(), Z, graph=["Mul"]),
    row("conj_physical", torch.conj_physical, Z),
    row("conj-of-parts", lambda x: torch.complex(x, x + 1).conj().resolve_conj(), F("n", 3)),
    row("abs", torch.abs, Z, graph=["ReduceL2"]),
    row("abs-of-parts", lambda x: torch.complex(x, x + 1).abs(), F("n", 3)),
    row("angle", torch.angle, Z, since=9),
    row("sgn", torch.sgn, Z, since=9),
    row("sgn-of-zero", lambda z: torch.sgn(z * 0), Z, since=9),
    row("to-complex128", lambda z: z.to(torch.complex128), Z),
    row("to-complex-of-real", lambda x: x.to(torch.complex64), F("n", 3)),
    row("to-bool", lambda z: (z * 0 + 1j).bool(), Z),
    row("mH", lambda z: z.mH, Z, graph=["Mul", "Transpose"]),
    row("mT", lambda z: z.mT, Z, graph=["Transpose"]),
    row("t", lambda z: z.t(), C("n", 3)),
    row("H-of-parts", lambda x: torch.complex(x, x + 1).H, F("n", 3)),
    row("isfinite", lambda z: torch.isfinite(z / 0), Z),
    row("isnan", lambda z: torch.isnan(z / 0), Z),
    row("isreal", lambda z: torch.isreal(torch.stack([z, z.real + 0j])), Z),
]

ARITHMETIC = [
    row("add", lambda a, b: a + b, Z, C(4, 1), graph=["Add"]),
    row("add-real", lambda a, b: a + b, Z, F("t")),
    row("real-add", lambda a, b: b + a, Z, F("n", 1, 1)),
    row("add-alpha", lambda a, b: torch.add(a, b, alpha=2), Z, C(4, 1)),
    row("add-number", lambda z: z + (1 - 2j), Z),
    row("real-add-number", lambda x: x + 2j, F("n", 3)),
    row("sub", lambda a, b: a - b, Z, C("t")),
    row("real-sub", lambda a, b: a - b, F("t"), Z),
    row("rsub", lambda z: 1 - z, Z),
    row("mul", lambda a, b: a * b, Z, C(4, 1)),
    row("mul-real", lambda a, b: a * b, Z, F("t"), graph=["Unsqueeze", "Mul"]),
    row("mul-number", lambda z: 2 * z, Z, graph=["Mul"]),
    row("mul-i", lambda z: z * 1j, Z),
    row("real-mul-i", lambda x: x * 1j, F("n", 3)),
    row("square", torch.square, Z),
    row("div", lambda a, b: a / b, Z, C(4, 1, low=0.5)),
    row("div-real", lambda a, b: a / b, Z, F("t", low=0.5)),
    row("div-number", lambda z: z / 3, Z, graph=["Div"]),
    row("real-div", lambda a, b: a / b, F("t"), C("n", 4, "t", low=0.5), since=7),
    row("reciprocal", torch.reciprocal, C("n", 3, low=0.5)),
    row("neg", torch.neg, Z, graph=["Neg"]),
    row("pow-3", lambda z: z**3, Z),
    row("pow-minus-2", lambda z: z**-2, C("n", 3, low=0.5)),
    row("pow-0", lambda z: z**0, C(2, 3)),
    row("pow-fraction", lambda z: z**1.3, Z, since=9),
    row("pow-half", lambda z: z**0.5, Z, since=9),
    row("pow-complex", lambda a, b: a**b, Z, C("t"), since=9),
    row("pow-real-base", lambda z: torch.pow(2.0, z), Z),
    row("eq", lambda z: z == torch.cat([z[:1], z[1:] + 1j]), Z, since=7),
    row("ne", lambda z: z != z.conj(), Z),
    row("sum", lambda z: z.sum(-1), Z, graph=["ReduceSum"]),
    row("sum-all", torch.sum, Z),
    row("mean", lambda z: z.mean((0, 2), keepdim=True), Z, graph=["ReduceMean"]),
    row("prod", lambda z: z.prod(1), C("n", 5)),
    row("prod-all", torch.prod, C(2, 3)),
    row("prod-of-nothing", lambda z: z[:, :0].prod(1), C(2, 3)),
    row("cumprod", lambda z: z.cumprod(1), C("n", 6)),
    row("var", lambda z: z.var(1), C("n", 6)),
    row("std_mean", lambda z: torch.std_mean(z, -1, keepdim=True), C("n", 6)),
    row("lerp", torch.lerp, Z, C("t"), C("n", 1, 1)),
    row("logical_and", lambda z, x: torch.logical_and(z * 0 + 1j, x), Z, F("t")),
    row("cumsum", lambda z: z.cumsum(-1), C("n", 4, 5), dynamic_since=7),
    row("norm", lambda z: torch.linalg.vector_norm(z, dim=-1), Z),
]

FUNCTIONS = [
    row(name, getattr(torch, name), C(2, 5), since=since)
    for name, since in {
        "exp": 7, "log": 9, "log2": 9, "log10": 9, "log1p": 9, "sqrt": 9, "rsqrt": 9, "sin": 7, "cos": 7, "tan": 7,
        "sinh": 7, "cosh": 7, "tanh": 7, "sigmoid": 7, "asin": 9, "acos": 9, "atan": 9, "asinh": 9, "acosh": 9,
        "atanh": 9, "expm1": 7, "exp2": 7,
    }.items()
]  # fmt: skip

PRODUCTS = [
    row("matmul", torch.matmul, C("n", 3, 4), C(4, 5)),
    row("mm", torch.mm, C("n", 4), C(4, 3)),
    row("bmm", torch.bmm, C("n", 3, 4), C("n", 4, "t")),
    row("mv", torch.mv, C("n", 4), C(4)),
    row("dot", torch.dot, C("n"), C("n")),
    row("vdot", torch.vdot, C("n"), C("n")),
    row("outer", torch.outer, C("n"), C("t")),
    row("einsum", lambda a, b: torch.einsum("bij,bkj->bik", a, b.conj()), C("n", 3, 4), C("n", 5, 4)),
    row("einsum-three", lambda a, b, c: torch.einsum("ij,jk,kl->il", a, b, c), C("n", 2), C(2, 3), C(3, 4)),
    row("linear", nn.functional.linear, C("n", 3), C(4, 3), C(4)),
    row("conv2d", nn.functional.conv2d, C("n", 2, 5, 5), C(3, 2, 3, 3), C(3), dtypes=(torch.float32,)),
]

MOVING = [
    row("reshape", lambda z: z.reshape(z.shape[0], -1), Z, graph=["Reshape"]),
    row("flatten", lambda z: z.flatten(), Z, graph=["Flatten"]),
    row("transpose", lambda z: z.transpose(-1, 0), Z, graph=["Transpose"]),
    row("permute", lambda z: z.permute(-1, 0, 1), Z, graph=["Transpose"]),
    row("movedim", lambda z: z.movedim(-1, 0), Z, graph=["Transpose"]),
    row("slice", lambda z: z[..., 1:], Z, graph=["Slice"]),
    row("select", lambda z: z[..., -1], Z, graph=["Gather"]),
    row("squeeze", lambda z: z.squeeze(), C(2, 1, 3), graph=["Squeeze"]),
    row("unsqueeze", lambda z: z.unsqueeze(-1), Z, graph=["Unsqueeze"]),
    row("cat", lambda a, b: torch.cat([a, b], -1), Z, C("n", 4, 2), graph=["Concat"]),
    row("cat-real", lambda a, b: torch.cat([a, b], -1), Z, F("n", 4, 2)),
    row("stack", lambda a, b: torch.stack([a, b], -1), Z, Z),
    row("split", lambda z: z.split([1, 3], 1), Z, graph=["Split"]),
    row("unbind", lambda z: z.unbind(1), Z),
    row("chunk", lambda z: z.chunk(2, -2), Z),
    row("expand", lambda z: z.expand(3, -1, -1), C(1, "n", 2)),
    row("repeat", lambda z: z.repeat(2, 1, 3), Z),
    row("flip", lambda z: z.flip(-1), C("n", 3), since=7, dynamic_since=7),
    row("roll", lambda z: z.roll(1, -1), C("n", 3)),
    row("roll-flat", lambda z: z.roll(1), C(2, 3)),
    row("index", lambda z, i: z[:, i], Z, I(5)),
    row("mask", lambda z, m: z[m], C("n", 3), B("n"), since=9),
    row("gather", lambda z, i: z.gather(1, i), Z, I("n", 2, "t"), since=7, dynamic_since=11),
    row("where", torch.where, B("n", 4, 1), Z, C("t"), since=9),
    row("where-zero", lambda z: torch.where(z.real > 0, z, 0), Z, since=9),
    row("masked_fill", lambda z, m: z.masked_fill(m, 1 + 2j), Z, B("n", 4, "t"), since=9),
    row("pad", lambda z: nn.functional.pad(z, (1, 2)), Z, graph=["Pad"]),
    row("pad-value", lambda z: nn.functional.pad(z, (1, 2), value=3.0), Z),
    row("tril", torch.tril, C(4, 4), since=9),
    row("diagonal", lambda z: z.diagonal(dim1=-2, dim2=-1), C("n", 3, 3), since=7, dynamic_since=7),
    row("diff", lambda z: z.diff(dim=-1), C("n", 5)),
    row("zeros", lambda z: torch.zeros_like(z) + torch.zeros(z.shape, dtype=z.dtype), Z),
    row("ones", lambda z: z + torch.ones_like(z), C("n", 3)),
    row("full", lambda z: z + torch.full((3,), 2 - 1j), C("n", 3)),
    row("eye", lambda z: z @ torch.eye(3, dtype=z.dtype), C("n", 3)),
    row("constant", lambda z: z * torch.tensor([1j, 2.0, 3 - 1j]), C("n", 3)),
]


def _through_real(z: Tensor) -> Tensor:
    y = z * 1
    y.real = y.imag * 2
    y.imag[:, 1:] = 0
    return y


def _through_view_as_real(z: Tensor) -> Tensor:
    y = z * 1
    torch.view_as_real(y)[..., 0] = 3
    return y


def _through_view_as_complex(x: Tensor) -> Tensor:
    y = x * 1
    torch.view_as_complex(y).mul_(1j)
    return y


def _through_conj(z: Tensor) -> Tensor:
    y = z * 1
    y.conj()[:, 0] = 2j
    y.mH[0] *= 2
    return y


def _into_zeros(z: Tensor) -> Tensor:
    y = torch.zeros(3, 4, dtype=z.dtype)
    y[:, ::2] = z[:, ::2]
    y[0] = torch.arange(4)
    return y


WRITES = [
    row("write-real", _through_real, C("n", 3)),
    row("write-view_as_real", _through_view_as_real, C("n", 3)),
    row("write-view_as_complex", _through_view_as_complex, F("n", 3, 2)),
    row("write-conj", _through_conj, C(3, 3)),
    row("write-into-zeros", _into_zeros, C(3, 4), since=9, dtypes=(torch.float32,)),
]

test_parts = table(PARTS)
test_arithmetic = table(ARITHMETIC)
test_functions = table(FUNCTIONS)
test_products = table(PRODUCTS)
test_moving = table(MOVING)
test_writes = table(WRITES)


# Models


def rotated(x: Tensor, turns: Tensor) -> Tensor:
    pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * turns[None, :, None, :]).flatten(3).type_as(x)


class Rotary(nn.Module):
    """Attention whose queries and keys are turned by complex numbers."""

    def __init__(self, width: int = 16, heads: int = 2, longest: int = 32) -> None:
        super().__init__()
        self.heads = heads
        self.projection = nn.Linear(width, 3 * width)
        steps = 1.0 / 100.0 ** (torch.arange(0, width // heads, 2) / (width // heads))
        angles = torch.outer(torch.arange(longest), steps)
        self.register_buffer("turns", torch.polar(torch.ones_like(angles), angles), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, _ = x.shape
        q, k, v = self.projection(x).reshape(batch, length, 3, self.heads, -1).unbind(2)
        turns = self.turns[:length]
        q, k, v = (t.transpose(1, 2) for t in (rotated(q, turns), rotated(k, turns), v))
        return nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)


def exported(model: Callable[..., object], *args: Tensor, **settings: object) -> onnxport.Program:
    names = [f"x{i}" for i in range(len(args))]
    return onnxport.export(model, args, io.BytesIO(), input_names=names, **settings)  # type: ignore[arg-type]


@pytest.mark.parametrize("opset", [10, 13, 20])
def test_rotary_attention_at_other_sizes(opset: int) -> None:
    model = Rotary().eval()
    axes = {"x0": {0: "batch", 1: "length"}}
    program = exported(model, torch.randn(2, 6, 16), dynamic_axes=axes, opset_version=opset)
    assert program.verification.passed
    x = torch.randn(3, 11, 16)
    torch.testing.assert_close(program(x), model(x), rtol=1e-4, atol=1e-5)


def test_inputs_and_outputs_have_an_axis_for_the_parts() -> None:
    program = exported(
        lambda z, x: {"a": z * x, "b": x}, torch.randn(2, 3, dtype=torch.complex64), torch.randn(3),
        dynamic_axes={"x0": {0: "batch"}},
    )  # fmt: skip
    graph = program.model_proto.graph
    shapes = [
        [d.dim_param or d.dim_value for d in value.type.tensor_type.shape.dim]
        for value in (*graph.input, *graph.output)
    ]
    assert shapes == [["batch", 3, 2], [3], ["batch", 3, 2], [3]]
    assert graph.input[0].type.tensor_type.elem_type == onnx.TensorProto.FLOAT
    z, x = torch.randn(4, 3, dtype=torch.complex64), torch.randn(3)
    result = program(z, x)
    assert result["a"].dtype == torch.complex64
    torch.testing.assert_close(result["a"], z * x)


class Weighted(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3, 4, dtype=torch.complex64))

    def forward(self, z: Tensor) -> Tensor:
        return z @ self.weight


def test_complex_weights_keep_their_names() -> None:
    program = exported(Weighted(), torch.randn(2, 3, dtype=torch.complex64), do_constant_folding=False)
    weights = {tensor.name: list(tensor.dims) for tensor in program.model_proto.graph.initializer}
    assert weights["weight"] == [3, 4, 2]
    assert program.verification.passed


def test_complex_weights_as_inputs() -> None:
    program = exported(Weighted(), torch.randn(2, 3, dtype=torch.complex64), export_params=False)
    assert [value.name for value in program.model_proto.graph.input] == ["x0", "weight"]
    assert program.verification.passed


@torch.jit.script
def repeated(z: Tensor, times: int) -> Tensor:
    y = z
    for _ in range(times):
        y = y * z + 1j if bool(y.real.sum() > 0) else y.conj()
    return y


class Repeated(nn.Module):
    def forward(self, z: Tensor, x: Tensor) -> Tensor:
        return repeated(z, x.shape[0])


def test_complex_numbers_in_loops_and_branches() -> None:
    z = torch.randn(3, dtype=torch.complex64)
    program = exported(torch.jit.script(Repeated()), z, torch.randn(4), dynamic_axes={"x1": {0: "times"}})
    assert [node.op_type for node in program.model_proto.graph.node][-1] == "Loop"
    z, x = torch.tensor([0.5 + 0.1j, -0.2, 0.3j]), torch.randn(7)
    torch.testing.assert_close(program(z, x), repeated(z, 7))


@pytest.mark.parametrize(
    ("call", "operator"),
    [(torch.linalg.svdvals, "aten::_linalg_svd"), (torch.linalg.qr, "aten::linalg_qr")],
)
def test_what_has_no_complex_form_is_an_error(call: Callable[[Tensor], Tensor], operator: str) -> None:
    with pytest.raises(onnxport.UnsupportedOperatorError, match=rf"{operator}\w* on complex numbers"):
        exported(call, torch.randn(3, 3, dtype=torch.complex64))


def test_half_precision_complex_input_is_an_error() -> None:
    with pytest.raises(onnxport.CaptureError, match="half-precision complex"):
        exported(lambda z: z, torch.zeros(2, dtype=torch.complex32))


def test_half_precision_complex_numbers_inside_are_an_error() -> None:
    with pytest.raises(onnxport.UnsupportedOperatorError, match="aten::complex on complex numbers"):
        exported(lambda x: torch.complex(x, x).real, torch.zeros(2, dtype=torch.float16))


def test_a_file_is_checked_against_its_complex_model() -> None:
    program = exported(torch.square, torch.randn(2, 3, dtype=torch.complex64), dynamic_axes={"x0": {0: "batch"}})
    z = torch.randn(3, 3, dtype=torch.complex64)
    assert onnxport.verify(program, torch.square, (z,)).passed
    assert not onnxport.verify(program, torch.conj, (z,)).passed
