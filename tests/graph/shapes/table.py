"""Calls of operators on elements and on whole tensors, with sizes that vary: ``n``, ``m`` and the batch ``b``."""

from __future__ import annotations

import torch

from onnxport.graph.ir import Node
from onnxport.graph.sizes import SizeExpr
from tests.graph.shapes.calls import call, index, tensor

MAX = 2**63 - 1


def pointwise(n: SizeExpr, m: SizeExpr, b: SizeExpr) -> list[Node]:
    mask = tensor(b, n, dtype=torch.bool)
    return [
        call("relu", tensor(b, n)),
        call("add.Tensor", tensor(b, 1, n), tensor(n)),
        call("add.Tensor", tensor(b, n), tensor(6)),
        call("mul.Tensor", tensor(b, 1, 3), tensor(n, 1)),
        call("mul.Tensor", tensor(n), tensor(m + 2)),
        call("mul_.Tensor", tensor(b, n), tensor(6)),
        call("mul_.Tensor", tensor(b, 6), tensor(n)),
        call("where.self", mask, tensor(n), tensor()),
        call("where.ScalarOther", mask, tensor(b, n), 0.5),
        call("addcmul", tensor(n), tensor(b, 1), tensor()),
        call("clamp.Tensor", tensor(b, n), tensor(n), tensor(b, 1)),
        call("lerp.Scalar", tensor(b, n), tensor(n), 0.5),
        call("floor_divide", tensor(b, n), tensor(n)),
        call("pow.Tensor_Scalar", tensor(b, n), 2),
        call("bitwise_and.Tensor", mask, mask),
        call("__and__.Tensor", mask, tensor(n, dtype=torch.bool)),
        call("__ior__.Tensor", mask, tensor(6, dtype=torch.bool)),
        call("gelu_", tensor(b, n)),
        call("native_dropout", tensor(b, n), 0.5, True),
        call("masked_fill.Scalar", tensor(n), mask, 0),
        call("masked_fill_.Scalar", tensor(b, 6), mask, 0),
        call("masked_scatter", tensor(n), mask, tensor(b, n)),
        call("copy_", tensor(b, 6), tensor(n)),
    ]


def of_one_shape(n: SizeExpr, m: SizeExpr, b: SizeExpr) -> list[Node]:
    return [
        call("softmax.int", tensor(b, n), -1),
        call("cumsum", tensor(b, n), 1),
        call("cummax", tensor(b, n), 1),
        call("prelu", tensor(b, 6, n), tensor(6)),
        call("prelu", tensor(b, n), tensor(6)),
        call("dropout", tensor(b, n), 0.5, False),
        call("fake_quantize_per_tensor_affine", tensor(b, n), 0.1, 0, 0, 255),
        call("mse_loss", tensor(b, n), tensor(n), 0),
        call("mse_loss", tensor(b, n), tensor(6), 1),
        call("binary_cross_entropy", tensor(2, n), tensor(2, 6), reduction=0),
        call("cross_entropy_loss", tensor(b, 5, n), index(b, 6), None, 0),
        call("cross_entropy_loss", tensor(b, 5, n), tensor(b, 5, n), None, 0),
        call("cosine_similarity", tensor(b, 1, n), tensor(1, 3, n), -1),
        call("pairwise_distance", tensor(b, n), tensor(n), keepdim=True),
    ]


def reductions(n: SizeExpr, m: SizeExpr, b: SizeExpr) -> list[Node]:
    given = tensor(b, n, m)
    return [
        call("sum", given),
        call("sum.dim_IntList", given, [1], True),
        call("sum.dim_IntList", given, [-1, 0]),
        call("sum.dim_IntList", given, []),
        call("mean.dim", given, [1, 2], True),
        call("amax", given, [1]),
        call("amax", given),
        call("max", given),
        call("max.dim", given, 1),
        call("min.dim", given, -1, True),
        call("argmax", given, 2),
        call("argmin", given),
        call("aminmax", given, dim=1, keepdim=True),
        call("all.dims", given, []),
        call("any.dims", given, [0, 1]),
        call("any.dim", given, 1),
        call("var_mean.correction", given, [2]),
        call("std.dim", given, [1], False),
        call("prod.dim_int", given, 0),
        call("logsumexp", given, [1], True),
        call("linalg_vector_norm", given, 2, [1]),
        call("linalg_vector_norm", given, float("inf"), [1]),
        call("linalg_matrix_norm.str_ord", given, "fro"),
        call("norm.ScalarOpt_dim", given, -1, [2], True),
        call("count_nonzero.dim_IntList", given, [1, 2]),
        call("nansum", given, [1]),
        call("median", given),
        call("median.dim", given, 1),
        call("mode", given, 2, True),
        call("kthvalue", given, 2, 1),
        call("quantile", given, tensor(3), 1),
        call("quantile.scalar", given, 0.5, None, True),
    ]


def views(n: SizeExpr, m: SizeExpr, b: SizeExpr) -> list[Node]:
    return [
        call("reshape", tensor(b, n, m), [b, -1]),
        call("reshape", tensor(b, n, 6), [b, n, 2, -1]),
        call("reshape", tensor(b, n, m), [-1, m]),
        call("reshape", tensor(n, m), [-1, 2]),
        call("reshape", tensor(n, 4), [n // 2, -1]),
        call("reshape", tensor(n, 4), [n - 3, -1]),
        call("reshape", tensor(b, n * 4), [b, n, 4]),
        call("view", tensor(b, n, 4), [b, 24]),
        call("view", tensor(n, m), [m, n]),
        call("view", tensor(b, 8), [b, 2, -1]),
        call("view_as", tensor(b, n, 4), tensor(b, 24)),
        call("view.dtype", tensor(b, n), torch.int16),
        call("view.dtype", tensor(b, n), torch.float64),
        call("view_as_complex", tensor(b, n, 2)),
        call("view_as_real", tensor(b, n, dtype=torch.complex64)),
    ]


def expanded(n: SizeExpr, m: SizeExpr, b: SizeExpr) -> list[Node]:
    return [
        call("expand", tensor(n, 1), [b, -1, m]),
        call("expand", tensor(n, 1), [b, 6, 4]),
        call("expand", tensor(1, 3), [n // 2, 3]),
        call("expand_as", tensor(n), tensor(b, 6)),
        call("broadcast_to", tensor(n), [m, n]),
        call("broadcast_tensors", [tensor(n), tensor(b, 1), tensor(6)]),
        call("sum_to_size", tensor(b, n), [1, 6]),
        call("transpose.int", tensor(b, n, m), 1, -1),
        call("permute", tensor(b, n, m), [2, 0, -2]),
        call("movedim.intlist", tensor(b, n, m), [0, 1], [-1, 0]),
        call("rot90", tensor(b, n, m), 1, [0, 2]),
        call("adjoint", tensor(b, n, m)),
        call("unsqueeze", tensor(b, n), -1),
        call("squeeze", tensor(1, n, 1, 5)),
        call("squeeze.dim", tensor(b, n), 1),
        call("squeeze.dims", tensor(b, n, 1), [1, -1]),
        call("squeeze.dim", tensor(b - 1, n), 0),
        call("squeeze_.dim", tensor(b, 1, n), 1),
        call("flatten.using_ints", tensor(b, n, m, 2), 1, 2),
        call("flatten.using_ints", tensor()),
        call("unflatten.int", tensor(b, n), 1, [-1, 2]),
        call("unflatten.int", tensor(b, n * 4), 1, [n, 4]),
        call("atleast_2d", tensor(n)),
        call("atleast_3d.Sequence", [tensor(n), tensor(b, n), tensor()]),
    ]


def slices(n: SizeExpr, m: SizeExpr, b: SizeExpr) -> list[Node]:
    cuts = [(1, MAX), (None, -1), (-2, MAX), (0, 4), (2, 4), (0, m), (m, MAX), (n - 2, n), (n // 2, None), (-m, None)]
    cuts += [(5, 2), (n - m, m), (-100, 3), (m - 3, -1), (None, None), (m, n - 1), (MAX, None), (-1, 0), (-1, -4)]
    by_1_or_2 = [call("slice.Tensor", tensor(b, n, m), 1, *cut, step) for cut in cuts for step in (1, 2)]
    return [*by_1_or_2, call("slice.Tensor", tensor(b, n, m), -1, 1, MAX, 3)]


def pieces(n: SizeExpr, m: SizeExpr, b: SizeExpr) -> list[Node]:
    given = tensor(b, n, m)
    return [
        call("narrow", given, 1, 2, 3),
        call("narrow", given, 1, -3, 2),
        call("narrow", given, 1, n - 1, 1),
        call("narrow", given, 1, 0, m),
        call("narrow", given, 1, m - 2, 2),
        call("select.int", given, 1, 3),
        call("select.int", given, 1, -3),
        call("select.int", given, 1, m - 2),
        call("select_copy.int", given, 1, 3),
        call("slice_copy.Tensor", given, 1, 1),
        call("unbind.int", tensor(b, n), 1),
        call("unbind.int", tensor(n, 3), 1),
        call("split.Tensor", given, 4, 1),
        call("split.Tensor", given, 100, 1),
        call("split.Tensor", given, m + 1, 1),
        call("split_with_sizes", given, [2, n - 2], 1),
        call("split_with_sizes", given, [2, 4], 1),
        call("split.sizes", given, [n // 2, n - n // 2], 1),
        call("chunk", given, 2, 1),
        call("chunk", given, 4, 1),
        call("chunk", given, 3, 0),
        call("tensor_split.sections", given, 4, 1),
        call("tensor_split.indices", given, [2, m], 1),
        call("hsplit.int", given, 3),
        call("vsplit.array", given, [1]),
    ]


def windows(n: SizeExpr, m: SizeExpr, b: SizeExpr) -> list[Node]:
    given = tensor(b, n, m)
    return [
        call("unfold", given, 1, 3, 2),
        call("unfold", given, 1, m, 1),
        call("diagonal", given, 1, 1, 2),
        call("diagonal", given, -2, 2, 0),
        call("diagonal", tensor(n, n)),
        call("diag", tensor(n), 2),
        call("diag", tensor(n, m), -1),
        call("diagflat", tensor(b, n), 1),
        call("diag_embed", tensor(b, n), 1),
        call("trace", tensor(n, m)),
    ]


def joined(n: SizeExpr, m: SizeExpr, b: SizeExpr) -> list[Node]:
    return [
        call("cat", [tensor(b, n), tensor(b, 3), tensor(0)], 1),
        call("cat", [tensor(n), tensor(m), tensor(1)]),
        call("cat", [tensor(n, 2), tensor(6, 3)], -1),
        call("cat", [tensor(0), tensor(0)]),
        call("stack", [tensor(n, 2), tensor(6, 2), tensor(n, 2)], -1),
        call("hstack", [tensor(n), tensor(3)]),
        call("vstack", [tensor(n), tensor(m, 6)]),
        call("dstack", [tensor(n), tensor(6)]),
        call("column_stack", [tensor(n), tensor(6, m)]),
        call("block_diag", [tensor(n, m), tensor(n), tensor()]),
        call("cartesian_prod", [tensor(n), tensor(m)]),
        call("combinations", tensor(n), 3),
        call("combinations", tensor(n), 2, True),
        call("meshgrid.indexing", [tensor(n), tensor(m), tensor()], indexing="xy"),
        call("meshgrid", [tensor(n), tensor(m)]),
        call("diff", tensor(b, n), 2),
        call("diff", tensor(b, n), 1, -1, tensor(b, 1), tensor(2, m)),
        call("kron", tensor(n, 2), tensor(b, 3, m)),
    ]


def repeated(n: SizeExpr, m: SizeExpr, b: SizeExpr) -> list[Node]:
    image = tensor(b, 3, n, m)
    modes = ("constant", "reflect", "replicate", "circular")
    return [
        call("repeat", tensor(n, 2), [b, 1, m]),
        call("repeat", tensor(n), [m - 3]),
        call("tile", tensor(b, n, 2), [m, 3]),
        call("repeat_interleave.self_int", tensor(b, n), m, 1),
        call("repeat_interleave.self_int", tensor(b, n), 2),
        *(call("pad", image, [2, 1, 0, 3], mode) for mode in modes),
        *(call("pad", image, [2, -1], mode) for mode in modes[:1]),
        *(call("pad", tensor(b, n, m), [2, -1], mode) for mode in modes[:3]),
        *(call("pad", tensor(b, n, m), [1, m // 2], mode) for mode in modes),
        call("pad", tensor(b, n), [0, 12 - n]),
        call("pad", tensor(b, n, 4), [0, 0, m, -3]),
        call("constant_pad_nd", tensor(b, n), [n, m], 0.5),
        call("reflection_pad2d", tensor(3, n, m), [1, 2, 3, 0]),
        call("replication_pad1d", tensor(b, 3, n), [1, -2]),
    ]


FAMILIES = (pointwise, of_one_shape, reductions, views, expanded, slices, pieces, windows, joined, repeated)
