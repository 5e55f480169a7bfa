"""Linear algebra: elimination, factorisations, singular values and eigenvalues, functions of matrices."""

from __future__ import annotations

from collections.abc import Callable

import onnx
import pytest
import torch

import onnxport
from tests.ops.harness import Case, F, Input, X, table

# LAPACK has no half precision, and torch none on the CPU either.
DTYPES = (torch.float32, torch.float64)


def drawn(shape: tuple[int, ...]) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape) + 5))


def positive(shape: tuple[int, ...]) -> torch.Tensor:
    a = drawn(shape)
    return a @ a.mT + torch.eye(shape[-1])


def symmetric(shape: tuple[int, ...]) -> torch.Tensor:
    a = drawn(shape)
    return a + a.mT


def upper(shape: tuple[int, ...]) -> torch.Tensor:
    return drawn(shape).triu() + 3 * torch.eye(shape[-2], shape[-1])


def swapping(shape: tuple[int, ...]) -> torch.Tensor:
    """Each step of the elimination must swap: the diagonal is zero at first."""
    return drawn(shape) * (1 - torch.eye(shape[-1]))


def low_rank(shape: tuple[int, ...]) -> torch.Tensor:
    """Of whole numbers, for the rank to be the same in each precision."""
    return (drawn((*shape[:-1], 2)) * 4).round() @ (drawn((*shape[:-2], 2, shape[-1])) * 4).round()


def M(*shape: int | str, make: Callable[[tuple[int, ...]], torch.Tensor] = drawn) -> Input:
    return X(*shape, make=make)


def case(id: str, call: Callable[..., object], *inputs: Input, **settings: object) -> Case:
    return Case(id, call, inputs, **{"since": 9, "dtypes": DTYPES, **settings})  # type: ignore[arg-type]


SQUARE, SYSTEM = M("n", 4, 4), M("n", 4, 3)
SIZED = M("t", "t")
TRIANGLE, SWAPPING = M("n", 4, 4, make=upper), M("n", 4, 4, make=swapping)
SINGULAR = X(3, 3, make=lambda shape: torch.diag(torch.tensor([1.0, 0.0, 2.0])))
DIFFERENT = X(3, 4, 4, make=lambda shape: drawn(shape) * torch.tensor([0.01, 1.0, 3.0])[:, None, None])
COUNTS = X("t", make=lambda shape: torch.arange(shape[0]) % 3 + 1, dtype=torch.int64)


def triangular(**options: bool) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    return lambda a, b: torch.linalg.solve_triangular(a, b, **{"upper": True, **options})


def from_factors(**options: bool) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    return lambda a, b: torch.linalg.lu_solve(*torch.linalg.lu_factor(a), b, **options)


def factors(a: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.linalg.lu_factor(a)


ELIMINATION = [
    case("det", torch.linalg.det, SQUARE, graph=["Det"]),
    case("det_one", torch.det, SIZED),
    case("det_swaps", torch.det, M("n", 5, 5, make=swapping)),
    case("det_empty", torch.det, M("n", 0, 0), dynamic=False),
    case("slogdet", torch.linalg.slogdet, SQUARE),
    case("slogdet_swaps", torch.slogdet, M("t", "t", make=swapping)),
    case("logdet", torch.logdet, SQUARE),
    case("inv", torch.linalg.inv, SQUARE),
    case("inv_of_any_size", torch.inverse, M("n", "t", "t"), dynamic_since=10),
    case("inv_swaps", torch.inverse, M("n", 5, 5, make=swapping)),
    case("inv_large", torch.inverse, M(40, 40), tolerance=10),
    case("inv_ex", torch.linalg.inv_ex, SQUARE),
    case("inv_ex_singular", lambda a: torch.linalg.inv_ex(a).info, SINGULAR),
    case("solve", torch.linalg.solve, SQUARE, SYSTEM),
    case("solve_any_size", torch.linalg.solve, SIZED, M("t", "n")),
    case("solve_vector", torch.linalg.solve, SIZED, M("t")),
    case("solve_vectors", torch.linalg.solve, SQUARE, M("n", 4)),
    case("solve_broadcast", torch.linalg.solve, M(4, 4), SYSTEM),
    case("solve_right", lambda a, b: torch.linalg.solve(a, b, left=False), SQUARE, M("n", 2, 4)),
    case("solve_ex", torch.linalg.solve_ex, SQUARE, SYSTEM),
    case("solve_ex_broadcast", torch.linalg.solve_ex, M(4, 4), SYSTEM),
    case("solve_triangular", triangular(), TRIANGLE, SYSTEM),
    case("solve_triangular_lower", triangular(upper=False), M("t", "t", make=lambda s: upper(s).mT), M("t", "n")),
    case("solve_triangular_right", triangular(left=False), TRIANGLE, M("n", 2, 4)),
    case("solve_triangular_unit", triangular(unitriangular=True), TRIANGLE, SYSTEM),
    case("triangular_solve", torch.triangular_solve, SYSTEM, TRIANGLE),
    case("triangular_solve_transposed", lambda b, a: torch.triangular_solve(b, a, transpose=True)[0], SYSTEM, TRIANGLE),
    case("lu_factor", torch.linalg.lu_factor, SQUARE),
    case("lu_factor_wide", torch.linalg.lu_factor_ex, M("n", 3, 5)),
    case("lu_factor_high", torch.linalg.lu_factor_ex, M("n", 5, 3)),
    case("lu", torch.linalg.lu, M("t", "t", make=swapping)),
    case("lu_high", torch.linalg.lu, M("n", 5, 3)),
    case("lu_wide", torch.linalg.lu, M("n", 3, 5)),
    case("lu_unpack", lambda a: torch.lu_unpack(*factors(a)), SWAPPING),
    case("lu_unpack_data", lambda a: torch.lu_unpack(*factors(a), unpack_pivots=False)[1:], SQUARE),
    case("lu_solve", from_factors(), SWAPPING, SYSTEM),
    case("lu_solve_adjoint", from_factors(adjoint=True), SWAPPING, SYSTEM),
    case("lu_solve_right", from_factors(left=False), SWAPPING, M("n", 2, 4)),
    case("lu_solve_old", lambda a, b: torch.lu_solve(b, *factors(a)), SWAPPING, SYSTEM),
]  # fmt: skip


def reflections(a: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.geqrf(a)


FACTORISATION = [
    case("cholesky", torch.linalg.cholesky, M("n", 4, 4, make=positive)),
    case("cholesky_any_size", torch.cholesky, M("t", "t", make=positive)),
    case("cholesky_upper", lambda a: torch.linalg.cholesky(a, upper=True), M("n", 4, 4, make=positive)),
    case("cholesky_lower_triangle", lambda a: torch.linalg.cholesky(a.tril()), M("n", 4, 4, make=positive)),
    case("cholesky_ex", torch.linalg.cholesky_ex, M("n", 4, 4, make=positive)),
    case("cholesky_ex_failure", lambda a: torch.linalg.cholesky_ex(a)[1], M("n", 4, 4, make=symmetric)),
    case("cholesky_solve", torch.cholesky_solve, SYSTEM, M("n", 4, 4, make=lambda s: upper(s).mT.contiguous())),
    case("cholesky_solve_upper", lambda b, a: torch.cholesky_solve(b, a, upper=True), SYSTEM, M("n", 4, 4, make=upper)),
    case("cholesky_inverse", torch.cholesky_inverse, M("t", "t", make=lambda s: upper(s).mT.contiguous())),
    case("cholesky_inverse_upper", lambda a: torch.cholesky_inverse(a, upper=True), M("n", 4, 4, make=upper)),
    case("qr", torch.linalg.qr, SQUARE),
    case("qr_high", torch.linalg.qr, M("n", 5, 3)),
    case("qr_wide", torch.linalg.qr, M("n", 3, 5)),
    case("qr_any_size", torch.qr, SIZED),
    case("qr_complete", lambda a: torch.linalg.qr(a, mode="complete"), M("n", 5, 3)),
    case("qr_r", lambda a: torch.linalg.qr(a, mode="r")[1], M("n", 5, 3)),
    case("qr_of_zeros", torch.linalg.qr, X(3, 3, make=torch.zeros)),
    case("geqrf", torch.geqrf, M("n", 5, 3)),
    case("householder_product", lambda a: torch.linalg.householder_product(*reflections(a)), M("n", 5, 3)),
    case("orgqr", lambda a: torch.orgqr(*reflections(a)), M("n", 5, 3)),
    case("ormqr", lambda a, b: torch.ormqr(*reflections(a), b), M("n", 5, 3), M("n", 5, 2)),
    case("ormqr_transposed", lambda a, b: torch.ormqr(*reflections(a), b, transpose=True), M(5, 3), M(5, 2)),
    case("ormqr_right", lambda a, b: torch.ormqr(*reflections(a), b, left=False), M("n", 5, 3), M("n", 2, 5)),
]  # fmt: skip


def recomposed(full: bool) -> Callable[[torch.Tensor], tuple[torch.Tensor, ...]]:
    """What does not depend on the signs of the vectors."""

    def call(a: torch.Tensor) -> tuple[torch.Tensor, ...]:
        u, s, vh = torch.linalg.svd(a, full_matrices=full)
        k = min(a.shape[-2:])
        return (u[..., :k] * s.unsqueeze(-2)) @ vh[..., :k, :], s, u.mT @ u, vh @ vh.mT

    return call


def diagonalised(a: torch.Tensor) -> tuple[torch.Tensor, ...]:
    values, vectors = torch.linalg.eigh(a)
    return (vectors * values.unsqueeze(-2)) @ vectors.mT, values, vectors.mT @ vectors


def old_svd(a: torch.Tensor) -> torch.Tensor:
    u, s, v = torch.svd(a)
    return (u * s.unsqueeze(-2)) @ v.mT


# The order of singular values is not known before the run: columns are gathered one by one, for a batch of
# unknown size from opset 11 on.
SPECTRAL = [
    case("svd", recomposed(False), SQUARE, dynamic_since=11),
    case("svd_high", recomposed(False), M("n", 6, 3), dynamic_since=11),
    case("svd_wide", recomposed(False), M("n", 3, 6), dynamic_since=11),
    case("svd_full", recomposed(True), M("n", 6, 3), dynamic_since=11),
    case("svd_low_rank", recomposed(True), M(5, 4, make=low_rank)),
    case("svd_of_zeros", recomposed(True), X(4, 3, make=torch.zeros)),
    case("svd_one_column", recomposed(False), M("n", 3, 1), dynamic_since=11),
    case("svd_old", old_svd, M("n", 4, 3)),
    case("svdvals", torch.linalg.svdvals, M("n", 5, 4), dynamic_since=11),
    case("svdvals_large_numbers", torch.linalg.svdvals, X(4, 4, make=lambda s: drawn(s) * 1e25)),
    case("svdvals_many", torch.linalg.svdvals, M(24, 24)),
    case("nuclear_norm", lambda a: torch.linalg.matrix_norm(a, ord="nuc"), M("n", 5, 4)),
    case("spectral_norm", lambda a: torch.linalg.matrix_norm(a, ord=2), M("n", 5, 4), dynamic_since=11),
    case("smallest_norm", lambda a: torch.linalg.norm(a, ord=-2), M(5, 4)),
    case("cond", torch.linalg.cond, SQUARE),
    case("cond_of_ones", lambda a: torch.linalg.cond(a, p=1), SQUARE),
    case("matrix_rank", torch.linalg.matrix_rank, M("n", 5, 4, make=low_rank)),
    case("matrix_rank_symmetric", lambda a: torch.linalg.matrix_rank(a, hermitian=True), M(4, 4, make=symmetric)),
    case("eigh", diagonalised, M("n", 5, 5, make=symmetric), dynamic_since=11),
    case("eigh_upper", lambda a: torch.linalg.eigvalsh(a, UPLO="U"), SQUARE),
    case("eigvalsh", torch.linalg.eigvalsh, M("n", 6, 6)),
    case("eigvalsh_equal", torch.linalg.eigvalsh, X(4, 4, make=lambda s: -2 * torch.eye(4))),
    case("pinv", torch.linalg.pinv, M("n", 5, 3), dynamic_since=11),
    case("pinv_wide", torch.linalg.pinv, M("n", 3, 5), dynamic_since=11),
    case("pinv_low_rank", torch.linalg.pinv, M(5, 4, make=low_rank)),
    case("pinverse", torch.pinverse, M(5, 4)),
    case("pinv_rtol", lambda a: torch.linalg.pinv(a, rtol=0.5), M("n", 5, 3), dynamic_since=11),
    case("pinv_atol", lambda a: torch.linalg.pinv(a, atol=1.0, rtol=0.0), M(5, 3)),
    case("pinv_symmetric", lambda a: torch.linalg.pinv(a, hermitian=True), M(4, 4, make=symmetric)),
    case("lstsq", lambda a, b: torch.linalg.lstsq(a, b)[:3], M("n", 5, 3), M("n", 5, 2), dynamic_since=11),
    case("lstsq_wide", lambda a, b: torch.linalg.lstsq(a, b).solution, M(3, 5), M(3, 2)),
    case("lstsq_low_rank", lambda a, b: torch.linalg.lstsq(a, b).solution, M(5, 4, make=low_rank), M(5, 2)),
    case("lstsq_gelsd", lambda a, b: tuple(torch.linalg.lstsq(a, b, driver="gelsd")), M(5, 3), M(5, 2)),
]


def weighted_covariance(x: torch.Tensor, counts: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    return torch.cov(x, fweights=counts, aweights=weights)


FUNCTIONS = [
    case("matrix_power", lambda a: torch.linalg.matrix_power(a, 5), SQUARE, since=7, graph=["MatMul"] * 3),
    case("matrix_power_zero", lambda a: torch.matrix_power(a, 0), SIZED, since=7, dynamic_since=9),
    case("matrix_power_negative", lambda a: torch.linalg.matrix_power(a, -3), SQUARE),
    case("matrix_exp", torch.linalg.matrix_exp, SQUARE),
    case("matrix_exp_any_size", torch.matrix_exp, SIZED),
    case("matrix_exp_of_different_sizes", torch.matrix_exp, DIFFERENT),
    case("matrix_exp_of_zeros", torch.matrix_exp, X(3, 3, make=torch.zeros)),
    case("tensorinv", torch.linalg.tensorinv, M(4, 6, 8, 3)),
    case("tensorsolve", torch.linalg.tensorsolve, M(2, 3, 6), M(2, 3)),
    case("tensorsolve_dims", lambda a, b: torch.linalg.tensorsolve(a, b, dims=(0,)), M(6, 2, 3), M(2, 3)),
    case("cov", torch.cov, F(3, "t"), since=7, dtypes=(torch.float64, torch.float16, torch.int64)),
    case("cov_vector", lambda x: torch.cov(x, correction=0), F("t"), since=7, dtypes=()),
    case("cov_weights", weighted_covariance, F(3, "t"), COUNTS, F("t", low=0.1), since=7),
    case("corrcoef", torch.corrcoef, F(3, "t"), since=7),
]  # fmt: skip

test_elimination = table(ELIMINATION)
test_factorisation = table(FACTORISATION)
test_spectral = table(SPECTRAL)
test_functions = table(FUNCTIONS)


def test_the_graph_does_not_grow_with_the_matrix() -> None:
    def nodes(size: int) -> int:
        example = drawn((size, size))
        program = onnxport.export(torch.linalg.inv, (example,), opset_version=20)
        return len(onnx.load_from_string(program.model_proto.SerializeToString()).graph.node)

    assert nodes(4) == nodes(64)


def test_singular_values_of_unknown_size_are_refused() -> None:
    with pytest.raises(onnxport.UnsupportedOperatorError, match="declare their last two axes static"):
        onnxport.export(
            torch.linalg.svdvals, (drawn((4, 4)),), None, input_names=["x"], dynamic_axes={"x": {0: "n", 1: "n"}}
        )
