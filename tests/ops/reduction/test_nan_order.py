"""NaN among what is ordered: the largest and the smallest of all that it is among, and behind infinity when sorted."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest
import torch

import onnxport
from onnxport.errors import OptionTypeError
from onnxport.verification.runtime import Session
from tests.ops.harness import operators

Call = Callable[[torch.Tensor], Any]
NAN, INF = float("nan"), float("inf")
# Around the widths that a vectorised loop takes at once, and its remainders.
LENGTHS = (1, 2, 5, 8, 17, 33, 70)
HALVES = (torch.float16, torch.bfloat16)


def rows(length: int, dtype: torch.dtype) -> torch.Tensor:
    """NaN at each place of a row: alone, among infinities of either sign, behind and before them, and with others."""
    generator = torch.Generator().manual_seed(length)
    numbers = torch.stack([torch.randperm(length, generator=generator) for _ in range(4 * length)]) - length / 2
    kinds = numbers.to(dtype).reshape(4, length, length)
    kinds[1], kinds[2] = INF, -INF
    kinds[3, :, 0], kinds[3, :, -1], kinds[3, :, length // 2] = INF, -INF, NAN
    places = torch.arange(length)
    kinds[:, places, places] = NAN
    limits = torch.finfo(dtype)
    plain = torch.tensor([NAN, INF, -INF, limits.max, limits.min, 0.0, -0.0], dtype=dtype)
    whole = plain[:, None].expand(-1, length)
    mixed = plain[[1, 3, 2, 4]].repeat(length)[:length][None]
    return torch.cat([kinds.flatten(0, 1), whole, mixed, mixed.flip(1)])


def exported(
    call: Callable[..., Any],
    inputs: tuple[torch.Tensor, ...],
    opset: int,
    dynamic: bool = False,
    *,
    exact_nan: bool = True,
) -> bytes:
    target = io.BytesIO()
    names = [f"x{i}" for i in range(len(inputs))]
    axes = {name: {axis: f"{name}_{axis}" for axis in range(x.dim())} for name, x in zip(names, inputs, strict=True)}
    onnxport.export(
        call,
        inputs,
        target,
        input_names=names,
        opset_version=opset,
        verify=False,
        exact_nan=exact_nan,
        dynamic_axes=axes if dynamic else None,
    )
    return target.getvalue()


def ran(data: bytes, *inputs: torch.Tensor) -> list[torch.Tensor]:
    return Session(data).run({f"x{i}": x for i, x in enumerate(inputs)})


def tensors(result: Any) -> list[torch.Tensor]:
    return [result] if isinstance(result, torch.Tensor) else list(result)


def assert_same(actual: list[torch.Tensor], expected: list[torch.Tensor]) -> None:
    """To the bit, where two NaN are the same."""
    for got, want in zip(actual, expected, strict=True):
        torch.testing.assert_close(got, want, rtol=0, atol=0, equal_nan=True)


def assert_same_choice(actual: list[torch.Tensor], expected: list[torch.Tensor], x: torch.Tensor, dim: int) -> None:
    """The same values, at places that hold them: which of two equal ones is taken is free."""
    (values, places), (wanted, wanted_places) = actual, expected
    assert_same([values], [wanted])
    assert places.dtype == wanted_places.dtype and places.shape == wanted_places.shape
    if places.dim() < x.dim():
        places, values = places.unsqueeze(dim), values.unsqueeze(dim)
    assert_same([x.gather(dim, places)], [values])
    ordered = places.sort(dim)[0]
    assert bool((ordered.diff(dim=dim) > 0).all()), "an element is taken twice"


ALONG = {
    "amax": lambda dim: lambda x: x.amax(dim),
    "amin": lambda dim: lambda x: x.amin(dim, keepdim=True),
    "aminmax": lambda dim: lambda x: tuple(torch.aminmax(x, dim=dim)),
    "max": lambda dim: lambda x: tuple(x.max(dim)),
    "max_keepdim": lambda dim: lambda x: tuple(x.max(dim, keepdim=True)),
    "max_values": lambda dim: lambda x: x.max(dim)[0],
    "max_places": lambda dim: lambda x: x.max(dim)[1],
    "min": lambda dim: lambda x: tuple(x.min(dim)),
    "argmax": lambda dim: lambda x: x.argmax(dim),
    "argmin": lambda dim: lambda x: x.argmin(dim, keepdim=True),
    "sort": lambda dim: lambda x: tuple(torch.sort(x, dim=dim, stable=True)),
    "sort_descending": lambda dim: lambda x: tuple(torch.sort(x, dim=dim, stable=True, descending=True)),
    "argsort": lambda dim: lambda x: torch.argsort(x, dim=dim, stable=True),
    "cummax": lambda dim: lambda x: tuple(x.cummax(dim)),
    "cummin": lambda dim: lambda x: tuple(x.cummin(dim)),
    "norm_inf": lambda dim: lambda x: torch.linalg.vector_norm(x, INF, dim=dim),
    "norm_minus_inf": lambda dim: lambda x: torch.linalg.vector_norm(x, -INF, dim=dim),
}
# Of equal elements torch takes which comes handy.
CHOSEN = {
    "topk": lambda dim: lambda x: tuple(x.topk((x.shape[dim] + 1) // 2, dim=dim)),
    "topk_smallest": lambda dim: lambda x: tuple(x.topk((x.shape[dim] + 1) // 2, dim=dim, largest=False)),
    "kthvalue": lambda dim: lambda x: tuple(x.kthvalue(1, dim=dim)),
    "kthvalue_keepdim": lambda dim: lambda x: tuple(x.kthvalue(int(x.shape[dim]), dim=dim, keepdim=True)),
    "median": lambda dim: lambda x: tuple(x.median(dim)),
    "nanmedian": lambda dim: lambda x: tuple(x.nanmedian(dim)),
}
WHOLE = {
    "max": lambda x: x.max(),
    "min": lambda x: x.min(),
    "amax": lambda x: x.amax((0, 1)),
    "aminmax": lambda x: tuple(torch.aminmax(x)),
    "argmax": lambda x: x.argmax(),
    "argmin": lambda x: x.argmin(),
    "median": lambda x: x.median(),
    "nanmedian": lambda x: x.nanmedian(),
    "msort": lambda x: x.msort(),
    "nan_to_num": lambda x: x.nan_to_num(),
    "nan_to_num_given": lambda x: x.nan_to_num(nan=1.0, posinf=2.0, neginf=-3.0),
}
VARIANTS = [
    *((opset, torch.float32) for opset in (9, 13, 18, 20)),
    *((20, dtype) for dtype in (torch.float64, *HALVES)),
    (11, torch.float64),
]
VARIANT = pytest.mark.parametrize(
    ("opset", "dtype"), [pytest.param(opset, dtype, id=f"{opset}-{str(dtype)[6:]}") for opset, dtype in VARIANTS]
)


def check_along(call: Call, dim: int, x: torch.Tensor, opset: int, free: bool) -> None:
    actual, expected = ran(exported(call, (x,), opset), x), tensors(call(x))
    if free:
        assert_same_choice(actual, expected, x, dim)
    else:
        assert_same(actual, expected)


@VARIANT
@pytest.mark.parametrize("name", [*ALONG, *CHOSEN])
def test_along_a_dimension(name: str, opset: int, dtype: torch.dtype) -> None:
    make = ALONG.get(name) or CHOSEN[name]
    x = rows(5, dtype)
    check_along(make(1), 1, x, opset, name in CHOSEN)
    check_along(make(1), 1, x[: len(x) // 2 * 2].reshape(2, -1, 5).transpose(1, 2).contiguous(), opset, name in CHOSEN)
    check_along(make(0), 0, x.T.contiguous(), opset, name in CHOSEN)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
@pytest.mark.parametrize("name", ["amax", "amin", "max", "argmax", "argmin", "sort", "sort_descending", "topk"])
def test_every_length(name: str, dtype: torch.dtype) -> None:
    make = ALONG.get(name) or CHOSEN[name]
    for dim in (0, 1):
        for length in LENGTHS:
            x = rows(length, dtype)
            check_along(make(dim), dim, x.T.contiguous() if dim == 0 else x, 20, name in CHOSEN)


@VARIANT
@pytest.mark.parametrize("name", WHOLE)
def test_whole_tensor(name: str, opset: int, dtype: torch.dtype) -> None:
    call = WHOLE[name]
    data = exported(call, (rows(3, dtype)[:2],), opset)
    for row in rows(3, dtype).unfold(0, 2, 1).transpose(1, 2):
        x = row.contiguous()
        assert_same(ran(data, x), tensors(call(x)))


# The k of kthvalue is a number in the file.
FREE = [name for name in (*ALONG, *CHOSEN) if name != "kthvalue_keepdim"]


@pytest.mark.parametrize(("name", "opset"), [(name, opset) for name in FREE for opset in (10, 11, 20)])
def test_free_sizes(name: str, opset: int) -> None:
    make, free = ALONG.get(name) or CHOSEN[name], name in CHOSEN
    data = exported(make(1), (rows(4, torch.float32),), opset, dynamic=True)
    for length in (1, 3, 6):
        x = rows(length, torch.float32)
        actual, expected = ran(data, x), tensors(make(1)(x))
        if free:
            assert_same_choice(actual, expected, x, 1)
        else:
            assert_same(actual, expected)


@pytest.mark.parametrize("name", ["amax", "amin", "aminmax", "max", "min", "argmax", "argmin", "norm_inf"])
def test_before_where(name: str) -> None:
    """Opsets 7 and 8 have neither IsNaN nor Where."""
    for opset in (7, 8):
        x = rows(5, torch.float32)
        check_along(ALONG[name](1), 1, x, opset, free=False)


@pytest.mark.parametrize("sorted_", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_topk_that_need_not_be_sorted(dtype: torch.dtype, sorted_: bool) -> None:
    def call(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(x.topk(3, sorted=sorted_))

    x = rows(7, dtype)
    values, places = ran(exported(call, (x,), 20), x)
    assert_same([x.gather(1, places), values.sort()[0]], [values, call(x)[0].sort()[0]])


def test_equal_elements_keep_their_order() -> None:
    x = torch.tensor([[1, NAN, 2, NAN, 1, 2, INF, NAN, INF, 1], [0, 0, -1, 0, 3, 3, -1, 3, 0, 0]])
    for dtype in (torch.float32, torch.float64, torch.float16):
        for name in ("sort", "sort_descending", "argsort", "max", "min", "argmax", "argmin"):
            check_along(ALONG[name](1), 1, x.to(dtype), 20, free=False)


@pytest.mark.parametrize("name", ["amax", "amin", "max_values"])
def test_zeros_keep_their_sign(name: str) -> None:
    x = torch.zeros(2, 19) * torch.tensor([[1.0], [-1.0]])
    call = ALONG[name](1)
    (actual,) = ran(exported(call, (x,), 20), x)
    assert torch.equal(actual.signbit(), call(x).signbit())


PAIRS = {
    "maximum": torch.maximum,
    "minimum": torch.minimum,
    "fmax": torch.fmax,
    "fmin": torch.fmin,
    "max": torch.max,
    "clamp_min": lambda x, y: torch.clamp(x, min=y),
    "clamp_max": lambda x, y: torch.clamp(x, max=y),
    "clamp": lambda x, y: torch.clamp(x, y, y + 1),
    "clamp_numbers": lambda x, y: torch.clamp(x, -1.0, 1.0) + torch.clamp(y, min=0.5),
    "clamp_nan": lambda x, y: (torch.clamp(x, min=NAN), torch.clamp(y, NAN, 1.0), torch.clamp(y, -1.0, NAN)),
}


@VARIANT
@pytest.mark.parametrize("name", PAIRS)
def test_pairs(name: str, opset: int, dtype: torch.dtype) -> None:
    kinds = torch.tensor([NAN, INF, -INF, 0.0, 1.5], dtype=dtype).repeat(5)
    x, y = kinds, kinds.reshape(5, 5).T.reshape(-1).contiguous()
    call = PAIRS[name]
    for length in (25, 9, 1):
        given = x[:length], y[:length]
        assert_same(ran(exported(call, given, opset), *given), tensors(call(*given)))


SEGMENTS = {
    "max": lambda x: torch.segment_reduce(x, "max", lengths=torch.tensor([1, 0, 2]), axis=0),
    "min": lambda x: torch.segment_reduce(x, "min", lengths=torch.tensor([3]), axis=0, initial=0.5),
}


@pytest.mark.parametrize("name", SEGMENTS)
def test_segments(name: str) -> None:
    call, x = SEGMENTS[name], rows(3, torch.float32).T.contiguous()
    assert_same(ran(exported(call, (x,), 20), x), [call(x)])


SCATTERS = {
    "scatter_amax": lambda x, i, s: x.scatter_reduce(1, i, s, "amax"),
    "scatter_amin": lambda x, i, s: x.scatter_reduce(1, i, s, "amin"),
    "scatter_amax_alone": lambda x, i, s: x.scatter_reduce(1, i, s, "amax", include_self=False),
    "scatter_amin_alone": lambda x, i, s: x.scatter_reduce(1, i, s, "amin", include_self=False),
    "index_amax": lambda x, i, s: x.index_reduce(1, i[0], s, "amax"),
    "index_amin_alone": lambda x, i, s: x.index_reduce(1, i[0], s, "amin", include_self=False),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
@pytest.mark.parametrize("name", SCATTERS)
def test_scatters(name: str, dtype: torch.dtype) -> None:
    source = rows(5, dtype)
    index = torch.tensor([0, 2, 0, 1, 2]).expand(len(source), 5).contiguous()
    call = SCATTERS[name]
    x = torch.tensor([0.5, -INF, INF, NAN], dtype=dtype)[torch.arange(len(source) * 4).reshape(-1, 4) % 4]
    for base in (x, x.flip(1)):
        given = (base, index, source)
        assert_same(ran(exported(call, given, 18), *given), [call(*given)])


@pytest.mark.parametrize("dtype", [torch.int32, torch.uint8])
def test_integers_take_one_node(dtype: torch.dtype) -> None:
    x = torch.arange(12, dtype=dtype).reshape(3, 4)
    for name, graph in {
        "amax": ["ReduceMax"],
        "max": ["ReduceMax", "ArgMax"],
        "argmin": ["ArgMin"],
        "sort": ["TopK"],
        "topk": ["TopK"],
    }.items():
        call = (ALONG.get(name) or CHOSEN[name])(1)
        assert operators(exported(call, (x,), 20)) == graph


PLAIN: dict[str, list[str]] = {
    "amax": ["ReduceMax"],
    "amin": ["ReduceMin"],
    "max": ["ReduceMax", "ArgMax"],
    "argmax": ["ArgMax"],
    "argmin": ["ArgMin"],
    "sort": ["TopK"],
    "argsort": ["TopK"],
    "topk": ["TopK"],
    "norm_inf": ["Abs", "ReduceMax"],
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", PLAIN)
def test_the_plain_operator_unless_asked(name: str, dtype: torch.dtype) -> None:
    x = torch.randn(6, 5, dtype=dtype)
    call = (ALONG.get(name) or CHOSEN[name])(1)
    data = exported(call, (x,), 20, exact_nan=False)
    assert operators(data) == PLAIN[name]
    assert_same(ran(data, x), tensors(call(x)))


@pytest.mark.parametrize("name", ["amax", "argmax", "sort", "max", "cummin", "median", "norm_inf"])
def test_a_nan_that_the_check_meets_names_the_option(name: str) -> None:
    call = (ALONG.get(name) or CHOSEN[name])(1)
    x = rows(5, torch.float32)
    with pytest.raises(onnxport.VerificationError, match="exact_nan=True"):
        onnxport.export(call, (x,), io.BytesIO())
    onnxport.export(call, (x,), io.BytesIO(), exact_nan=True)


def test_no_nan_no_mention_of_the_option() -> None:
    """A mismatch of another kind, after the same operator."""
    with pytest.raises(onnxport.VerificationError) as error:
        onnxport.export(
            lambda x: x.argmax(1), (torch.randn(3, 4),), io.BytesIO(), verify=lambda model, inputs: [torch.zeros(1)]
        )
    assert "exact_nan" not in str(error.value)


def test_exact_nan_is_a_bool() -> None:
    with pytest.raises(OptionTypeError, match="exact_nan must be True or False"):
        onnxport.export(lambda x: x.argmax(1), (torch.randn(3, 4),), io.BytesIO(), exact_nan="yes")  # type: ignore[arg-type]


class WeightExtremes(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.linspace(-1, 1, 30).reshape(6, 5))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x * self.weight.amax(1, keepdim=True), x + self.weight.T.amin(0)[:, None]


NUMBERS_ONLY = {
    "weight": WeightExtremes(),
    "cast": lambda x: (x > 0).float().amax(1),
    "moved": lambda x: (x > 0).to(torch.int64).to(torch.float64).transpose(0, 1).reshape(2, -1).argmax(0),
    "constant": lambda x: x + torch.linspace(0, 1, 5).amax(),
}


@pytest.mark.parametrize("name", NUMBERS_ONLY)
def test_what_cannot_be_nan_takes_one_node(name: str) -> None:
    x = torch.randn(6, 5)
    data = exported(NUMBERS_ONLY[name], (x,), 20)
    assert "IsNaN" not in operators(data)
    assert_same(ran(data, x), tensors(NUMBERS_ONLY[name](x)))
