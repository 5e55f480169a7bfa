"""Special functions: those of Bessel and Airy, of gamma and zeta, of the error function, orthogonal polynomials."""

from __future__ import annotations

import io
import math
from collections.abc import Callable

import pytest
import torch
from torch import special

import onnxport
from onnxport.verification.runtime import Session
from tests.ops.harness import ALL, Case, F, Input, X, table

ENDS = [math.inf, -math.inf, math.nan, 0.0, 1.0, -1.0, 1e-6, -1e-6]


def ends(shape: tuple[int, ...]) -> torch.Tensor:
    return torch.tensor(ENDS).expand(shape)


def degrees(shape: tuple[int, ...]) -> torch.Tensor:
    return (torch.arange(math.prod(shape)) % 12 - 1).reshape(shape)


NARROW, WIDE, POSITIVE = F("n", 7, low=-3, high=3), F("n", 7, low=-30, high=30), F("n", 7, low=0.01, high=30)
UNIT, PROBABILITY = F("n", 7, low=-0.999, high=0.999), F("n", 7, low=0.001, high=0.999)
LIMITS = X("n", 8, make=ends)
BFLOATS = (torch.float64, torch.float16, torch.bfloat16)
# torch's kernels of most special functions take float and double alone.
DOUBLE = (torch.float64,)


def case(id: str, call: Callable[..., object], *inputs: Input, **settings: object) -> Case:
    return Case(id, call, inputs, **{"since": 9, "dtypes": DOUBLE, **settings})  # type: ignore[arg-type]


def unary(name: str, *inputs: Input, **settings: object) -> list[Case]:
    """A function in its domain, and at the ends of all domains."""
    call = getattr(special, name)
    limits = {key: value for key, value in settings.items() if key != "dtypes"}
    return [case(name, call, *inputs, **settings), case(f"{name}_limits", call, LIMITS, **limits)]


ERROR_FUNCTIONS = [
    *unary("erfcx", F("n", 7, low=-3, high=30), dtypes=(torch.float64, torch.int64)),
    *unary("erfinv", UNIT, dtypes=BFLOATS),
    *unary("ndtri", PROBABILITY, dtypes=DOUBLE),
    *unary("log_ndtr", F("n", 7, low=-9, high=9), dtypes=DOUBLE),
    *unary("expm1", NARROW, dtypes=(*ALL, torch.bfloat16), since=7),
    *unary("log1p", F("n", 7, low=-0.9, high=9), dtypes=BFLOATS, since=7),
]
BESSEL = [
    *unary("i0", NARROW, dtypes=(*ALL, torch.bfloat16)),
    *unary("i0e", WIDE, dtypes=BFLOATS),
    *unary("i1", NARROW),
    *unary("i1e", WIDE),
    *unary("modified_bessel_i0", NARROW),
    *unary("modified_bessel_i1", NARROW),
    *unary("modified_bessel_k0", POSITIVE),
    *unary("modified_bessel_k1", POSITIVE),
    *unary("scaled_modified_bessel_k0", POSITIVE),
    *unary("scaled_modified_bessel_k1", POSITIVE),
    *unary("bessel_j0", WIDE, dtypes=(torch.float64, torch.int64)),
    *unary("bessel_j1", WIDE),
    *unary("bessel_y0", POSITIVE),
    *unary("bessel_y1", POSITIVE),
    *unary("spherical_bessel_j0", WIDE),
    *unary("airy_ai", F("n", 7, low=-15, high=15)),
]
GAMMA = [
    *unary("gammaln", F("n", 7, low=-4.9, high=30), dtypes=BFLOATS),
    *unary("digamma", F("n", 7, low=0.1, high=30), dtypes=DOUBLE),
    *[case(f"polygamma_{n}", lambda x, n=n: torch.polygamma(n, x), F("n", 7, low=-3.9, high=9)) for n in range(5)],
    case("polygamma_half", lambda x: torch.polygamma(1, x), F("n", 7, low=1, high=9), dtypes=(torch.float16,)),
    case("polygamma_limits", lambda x: torch.polygamma(2, x), LIMITS),
    case("zeta", special.zeta, F("n", 7, low=1.1, high=9), F("n", 7, low=0.1, high=20)),
    case("zeta_left", special.zeta, X(7, make=lambda s: torch.full(s, 3.0)), F(7, low=-7, high=0)),
    case("zeta_scalars", lambda x: (special.zeta(x, 2), special.zeta(3.0, x)), F("n", 7, low=1.1, high=9)),
    case("zeta_limits", special.zeta, X(8, 1, make=lambda s: torch.tensor(ENDS).abs().reshape(s)), X(8, make=ends)),
    case("gammainc", special.gammainc, F("n", 7, low=0.1, high=30), F("n", 7, low=0.1, high=30), dtypes=BFLOATS),
    case("gammaincc", special.gammaincc, F("n", 1, low=0.1, high=9), F(7, low=0.1, high=30)),
    case("igamma_limits", torch.igamma, X(8, 1, make=lambda s: torch.tensor(ENDS).reshape(s)), X(8, make=ends)),
    case("igammac_limits", torch.igammac, X(8, 1, make=lambda s: torch.tensor(ENDS).reshape(s)), X(8, make=ends)),
]  # fmt: skip

FAMILIES = [
    *[f"{shifted}chebyshev_polynomial_{kind}" for shifted in ("", "shifted_") for kind in "tuvw"],
    "hermite_polynomial_h",
    "hermite_polynomial_he",
    "laguerre_polynomial_l",
    "legendre_polynomial_p",
]


def fixed(name: str, degree: float) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda x: getattr(special, name)(x, degree)


POLYNOMIALS = [
    *[
        case(name, getattr(special, name), F("n", 1, low=-1.5, high=1.5), X(12, make=degrees, dtype=torch.int64))
        for name in FAMILIES
    ],
    *[case(f"{name}_fixed", fixed(name, 9), F("n", 7, low=-1, high=1), since=7) for name in FAMILIES],
    *[case(f"degree_{n}", fixed("legendre_polynomial_p", n), F("n", 7), since=7) for n in (-1, 0, 1, 2, 2.7)],
    case("degrees_of_one", lambda n: special.hermite_polynomial_h(0.5, n), X("n", 12, make=degrees, dtype=torch.int64)),
    case("degrees_of_floats", special.laguerre_polynomial_l, NARROW, F("n", 7, low=0, high=9)),
    case("no_degrees", special.chebyshev_polynomial_t, F(0, 3), X(0, 3, make=degrees, dtype=torch.int64)),
]

test_error_functions = table(ERROR_FUNCTIONS)
test_bessel = table(BESSEL)
test_gamma = table(GAMMA)
test_polynomials = table(POLYNOMIALS)

EVERYWHERE = torch.cat([torch.logspace(-6, 2, 200), -torch.logspace(-6, 2, 200), torch.linspace(-12, 12, 101)])
ABOVE = torch.logspace(-6, 2, 300)
BETWEEN = torch.cat([torch.linspace(-0.99, 0.99, 101), 1 - torch.logspace(-6, -1, 50), torch.logspace(-9, -1, 50)])
# Where each function is compared, and what is allowed for numbers near its zeros.
PRECISE: dict[str, tuple[torch.Tensor, float]] = {
    "erfcx": (ABOVE, 0.0),
    "erfinv": (BETWEEN, 0.0),
    "ndtri": (torch.logspace(-37, -0.31, 200), 1e-6),
    "log_ndtr": (EVERYWHERE[EVERYWHERE < 12], 0.0),
    "expm1": (EVERYWHERE[EVERYWHERE < 80], 0.0),
    "log1p": (EVERYWHERE[EVERYWHERE > -0.9], 0.0),
    "i0e": (EVERYWHERE, 0.0),
    "i1e": (EVERYWHERE, 0.0),
    "modified_bessel_k0": (ABOVE[ABOVE < 80], 0.0),
    "modified_bessel_k1": (ABOVE[ABOVE < 80], 0.0),
    "scaled_modified_bessel_k0": (ABOVE, 0.0),
    "scaled_modified_bessel_k1": (ABOVE, 0.0),
    "bessel_j0": (EVERYWHERE, 1e-6),
    "bessel_j1": (EVERYWHERE, 1e-6),
    "bessel_y0": (ABOVE, 1e-6),
    "bessel_y1": (ABOVE, 1e-6),
    "airy_ai": (EVERYWHERE[EVERYWHERE.abs() < 9], 1e-6),
    "gammaln": (EVERYWHERE, 4e-6),
    "digamma": (ABOVE, 2e-6),
}


@pytest.mark.parametrize("name", PRECISE)
def test_precision(name: str) -> None:
    """Each number by itself, against double precision."""
    given, near_zero = PRECISE[name]
    call = getattr(special, name)
    target = io.BytesIO()
    onnxport.export(call, (given,), target, input_names=["x"], verify=False)
    (actual,) = Session(target.getvalue()).run({"x": given})
    torch.testing.assert_close(actual.double(), call(given.double()), rtol=2e-5, atol=near_zero)
