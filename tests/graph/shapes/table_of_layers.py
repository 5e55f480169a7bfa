"""Calls of operators that pick, make, multiply and filter, with sizes that vary: ``n``, ``m`` and the batch ``b``."""

from __future__ import annotations

import torch

from onnxport.graph.ir import Node
from onnxport.graph.sizes import SizeExpr, apply
from tests.graph.shapes.calls import call, index, tensor


def picked(n: SizeExpr, m: SizeExpr, b: SizeExpr) -> list[Node]:
    given = tensor(b, n, m)
    return [
        call("index_select", given, 1, index(4)),
        call("index_select", given, 1, index(m)),
        call("gather", given, 1, index(b, 9, m)),
        call("gather", given, 1, index(2, n, 4)),
        call("gather", tensor(n), 0, index(m)),
        call("take", given, index(3, m)),
        call("take_along_dim", given, index(1, m, 1), 1),
        call("index.Tensor", given, [index(m, 1), index(n)]),
        call("index.Tensor", given, [None, index(m)]),
        call("index.Tensor", given, [index(n), None, index(3, 1)]),
        call("index.Tensor", given, [None, index(n), index(6)]),
        call("embedding", tensor(10, 4), index(b, n)),
        call("embedding", tensor(n, 4), index(b, m)),
        call("one_hot", index(b, n), 5),
        call("one_hot", index(b), m),
        call("histc", tensor(n), 7),
    ]


def written(n: SizeExpr, m: SizeExpr, b: SizeExpr) -> list[Node]:
    given = tensor(b, n, m)
    mask = tensor(b, n, dtype=torch.bool)
    return [
        call("scatter.src", given, 1, index(b, 3, m), tensor(b, 4, m)),
        call("scatter.value", given, 1, index(2, 9, m), 1),
        call("scatter_add", tensor(5, n), 0, index(m, n), tensor(m, 6)),
        call("scatter_reduce.two", given, 2, index(b, n, 3), tensor(b, n, 3), "sum"),
        call("index_put", given, [index(5)], tensor(m)),
        call("index_put_", given, [index(n), None, index(n)], tensor(6, 1)),
        call("index_put_", given, [mask], tensor()),
        call("index_add", tensor(b, n), 1, index(m), tensor(b, 4)),
        call("index_copy", tensor(b, n), 0, index(3), tensor(3, 6)),
        call("index_fill.int_Scalar", given, 1, index(m), 0),
        call("slice_scatter", given, tensor(b, 3, m), 1, 0, 3),
        call("slice_scatter", given, tensor(b, n - 1, m), 1, 1),
        call("select_scatter", given, tensor(b, 4), 1, 2),
        call("diagonal_scatter", tensor(n, n), tensor(6)),
    ]


def ordered(n: SizeExpr, m: SizeExpr, b: SizeExpr) -> list[Node]:
    given = tensor(b, n, m)
    return [
        call("topk", given, 3, 1),
        call("topk", given, m, 1),
        call("sort", given, 1),
        call("sort.stable", given, stable=True, dim=1),
        call("argsort", given, 1),
        call("searchsorted.Tensor", tensor(5), tensor(b, n)),
        call("searchsorted.Tensor", tensor(b, 3), tensor(2, n)),
        call("bucketize.Tensor", tensor(b, n), tensor(m)),
        call("isin.Tensor_Tensor", tensor(b, n), tensor(m)),
    ]


def made(n: SizeExpr, m: SizeExpr, b: SizeExpr) -> list[Node]:
    return [
        call("zeros", [b, n]),
        call("full", [n - m], 1.0),
        call("randint", 9, [n]),
        call("new_zeros", tensor(b), [n, 3]),
        call("zeros_like", tensor(b, n)),
        call("arange", n),
        call("arange", n, dtype=torch.float32),
        call("arange.start", m, n + 2),
        call("arange.start", n, n + 6),
        call("arange.start_step", 0, n, 2),
        call("arange.start_step", 1, n + 1, 3),
        call("arange.start_step", n - 1, -1, -1),
        call("arange.start_step", n, 0, -4),
        call("arange.start_step", 0, n * m, m),
        call("arange.start_step", n, 0, -m - 1),
        call("arange", n / 2),
        call("arange.start_step", 0, 1, apply("truediv", 1, n + 1)),
        call("arange.start_step", 0.5, n, 1.5),
        call("linspace", 0, 1, n),
        call("linspace", 0, 1, n - m),
        call("eye", n),
        call("eye.m", n, m),
        call("hann_window", n),
        call("randperm", n),
        call("triu_indices", n, n, 1),
        call("triu_indices", n, n, -2),
        call("tril_indices", n, n),
        call("tril_indices", n, n, -1),
        call("affine_grid_generator", tensor(b, 2, 3), [b, 3, n, m], False),
        call("hamming_window", m + 2),
        call("kaiser_window", n),
        call("fft_fftfreq", n),
        call("multinomial", tensor(b, n), 3),
        call("normal.Tensor_float", tensor(b, n)),
    ]


def transforms(n: SizeExpr, m: SizeExpr, b: SizeExpr) -> list[Node]:
    return [
        call("fft_fft", tensor(b, n), None, 1),
        call("fft_rfft", tensor(b, n, 2), None, 1),
        call("fft_rfft", tensor(b, n), m),
        call("fft_irfft", tensor(b, n, dtype=torch.complex64)),
        call("fft_irfft", tensor(b, n, dtype=torch.complex64), n * 2),
        call("fft_fft2", tensor(b, n, m)),
        call("fft_rfftn", tensor(b, n, m), [-1, 4]),
        call("fft_irfftn", tensor(b, n, m), None, [1, 2]),
        call("fft_fftshift", tensor(b, n)),
        call("fft_rfftfreq", n),
        call("stft", tensor(b, n), 4, 2, None, tensor(4), return_complex=True),
        call("istft", tensor(b, 3, n, dtype=torch.complex64), 4, 1, None, None),
    ]


def products(n: SizeExpr, m: SizeExpr, b: SizeExpr) -> list[Node]:
    return [
        call("linear", tensor(b, n, 4), tensor(5, 4), tensor(5)),
        call("linear", tensor(b, n), tensor(5, 6)),
        call("matmul", tensor(n), tensor(n)),
        call("matmul", tensor(n), tensor(6, m)),
        call("matmul", tensor(b, m), tensor(m)),
        call("matmul", tensor(n), tensor(b, n, m)),
        call("matmul", tensor(b, n, m), tensor(4)),
        call("matmul", tensor(b, n, m), tensor(m, 3)),
        call("matmul", tensor(n, m), tensor(b, m, n)),
        call("matmul", tensor(b, 1, n, m), tensor(2, m, 3)),
        call("bmm", tensor(b, n, m), tensor(2, m, 3)),
        call("mm", tensor(n, m), tensor(4, n)),
        call("mv", tensor(n, m), tensor(4)),
        call("dot", tensor(n), tensor(6)),
        call("addmm", tensor(n), tensor(b, m), tensor(m, 6)),
        call("addmm", tensor(2, 1), tensor(b, m), tensor(m, n)),
        call("baddbmm", tensor(n, 1), tensor(b, n, 3), tensor(b, 3, m)),
        call("addmv", tensor(n), tensor(n, m), tensor(4)),
        call("addr", tensor(n, 1), tensor(n), tensor(m)),
        call("outer", tensor(n), tensor(m)),
        call("inner", tensor(b, n), tensor(m, 6)),
        call("tensordot", tensor(b, n, m), tensor(m, n, 3), [1, 2], [1, 0]),
        call("linalg_cross", tensor(b, n, 3), tensor(1, n, 3)),
        call("cdist", tensor(b, n, 3), tensor(2, m, 3)),
        call("pdist", tensor(n, 3)),
        call("_grouped_mm", tensor(n, 8), tensor(2, 8, 16), tensor(b, dtype=torch.int32)),
    ]


def matrices(n: SizeExpr, m: SizeExpr, b: SizeExpr) -> list[Node]:
    return [
        call("einsum", "bnd,bmd->bnm", [tensor(b, n, 8), tensor(2, m, 8)]),
        call("einsum", "i,j", [tensor(n), tensor(m)]),
        call("einsum", "ii->i", [tensor(n, 6)]),
        call("einsum", "...ij,...jk->...ik", [tensor(b, 1, n, m), tensor(3, 4, 5)]),
        call("einsum", "...ij,jk", [tensor(b, n, m), tensor(m, 5)]),
        call("einsum", "bi,bj->b", [tensor(b, n), tensor(1, m)]),
        call("linalg_inv", tensor(b, n, 6)),
        call("linalg_det", tensor(b, n, n)),
        call("linalg_eigh", tensor(n, n)),
        call("linalg_qr", tensor(b, n, m)),
        call("linalg_svd", tensor(b, n, m), False),
        call("linalg_solve_triangular", tensor(b, 1, n, n), tensor(2, 6, m), upper=False),
        call("linalg_multi_dot", [tensor(n, m), tensor(m, 3), tensor(3)]),
    ]


def layers(n: SizeExpr, m: SizeExpr, b: SizeExpr) -> list[Node]:
    image, sound = tensor(b, 4, n + 3, m + 3), tensor(b, 4, n)
    return [
        call("conv1d", sound, tensor(8, 4, 3), tensor(8), [1], [0]),
        call("conv1d", tensor(4, n), tensor(8, 4, 3), None, [2], [1]),
        call("conv2d", image, tensor(8, 4, 3, 5), None, [2, 1], [1, 2], [2, 1]),
        call("conv2d", image, tensor(8, 2, 5, 5), None, [3], [1], [1], 2),
        call("conv2d.padding", image, tensor(8, 4, 3, 4), None, [1, 1], "same"),
        call("conv1d.padding", sound, tensor(8, 4, 2), None, [1], "same", [3]),
        call("conv2d.padding", image, tensor(8, 4, 3, 3), None, [1, 1], "valid"),
        call("conv3d", tensor(b, 4, n, m, 5), tensor(2, 4, 2, 2, 2)),
        call("conv2d", tensor(b, n, 5, 5), tensor(8, 6, 3, 3)),
        call("convolution", sound, tensor(4, 4, 3), None, [2], [1], [1], False, [0], 1),
        call("conv_transpose1d", sound, tensor(4, 5, 4), None, [2], [1], [1]),
        call("conv_transpose1d", sound, tensor(4, 5, 2), None, [1], [2]),
        call("conv_transpose2d.input", image, tensor(4, 2, 3, 3), None, [2, 3], [1, 1], [1, 0], 2, [1, 2]),
        call("conv_transpose3d.input", tensor(b, 4, n, m, 2), tensor(4, 2, 2, 2, 2), None, [2], [0]),
        call("convolution", sound, tensor(4, 4, 3), None, [2], [1], [1], True, [1], 1),
    ]


def pools(n: SizeExpr, m: SizeExpr, b: SizeExpr) -> list[Node]:
    image, sound = tensor(b, 4, n + 3, m + 3), tensor(b, 4, n)
    return [
        call("max_pool1d", sound, [3], [2]),
        call("max_pool2d", image, [3, 3], [2, 2], [1, 1]),
        call("max_pool2d", image, [2, 3], [2, 2], [1, 1], [1, 2], True),
        call("max_pool2d", tensor(4, n, m), [2, 2], [3, 3], ceil_mode=True),
        call("max_pool2d_with_indices", image, [3, 2]),
        call("max_pool3d", tensor(b, 2, n, m, 6), [2, 2, 2], ceil_mode=True),
        call("avg_pool1d", sound, [2], [2], [1], True),
        call("avg_pool2d", image, [2, 2]),
        call("avg_pool2d", image, [3, 4], [2, 2], [1, 2], True, False),
        call("avg_pool3d", tensor(b, 2, n, m, 6), [2, 3, 2], [1, 2, 2]),
        call("adaptive_avg_pool1d", sound, [5]),
        call("adaptive_avg_pool2d", image, [m, 7]),
        call("adaptive_avg_pool2d", image, [1, 1]),
        call("adaptive_max_pool2d", image, [3, m]),
        call("adaptive_avg_pool3d", tensor(b, 2, n, m, 6), [2, 2, 2]),
        call("im2col", image, [3, 3], [1, 2], [1, 1], [2, 1]),
        call("col2im", tensor(b, 12, n), [2, 7], [2, 2], [1, 1], [0, 0], [1, 1]),
        call("col2im", tensor(b, 12, (n - 1) * m), [n, m + 1], [2, 2], [1, 1], [0, 0], [1, 1]),
    ]


def resized(n: SizeExpr, m: SizeExpr, b: SizeExpr) -> list[Node]:
    image, sound = tensor(b, 4, n + 3, m + 3), tensor(b, 4, n)
    return [
        call("upsample_nearest2d.vec", image, [n * 2, m], None),
        call("upsample_nearest2d.vec", image, None, [2.0, 0.5]),
        call("upsample_bilinear2d.vec", image, None, False, [1.7, 0.3]),
        call("upsample_bilinear2d.vec", image, None, False, [apply("truediv", m + 1, n + 1), 1.0]),
        call("upsample_linear1d.vec", sound, [m], False, None),
        call("upsample_bicubic2d.vec", image, None, False, [1.5, 1.5]),
        call("upsample_trilinear3d.vec", tensor(b, 2, n, m, 2), [n, 5, m], True, None),
        call("upsample_nearest1d", sound, [m]),
        call("_upsample_bicubic2d_aa.vec", image, [n, m], False, None),
        call("_upsample_nearest_exact2d.vec", image, None, [0.4, 2.0]),
        call("grid_sampler", image, tensor(b, n, m, 2), 0, 0, False),
        call("grid_sampler", tensor(b, 3, n, 5), tensor(2, m, 4, 2), 0, 0, False),
        call("pixel_shuffle", tensor(b, n - 2, m, 5), 2),
        call("pixel_unshuffle", tensor(b, 3, n, m), 2),
        call("channel_shuffle", tensor(b, n, m), 3),
        call("glu", tensor(b, n, m), 1),
    ]


def norms(n: SizeExpr, m: SizeExpr, b: SizeExpr) -> list[Node]:
    return [
        call("layer_norm", tensor(b, n, 6), [6], tensor(6), tensor(6)),
        call("layer_norm", tensor(b, m, n), [6]),
        call("rms_norm", tensor(b, n, 6), [6]),
        call("native_layer_norm", tensor(b, n, 4, 6), [4, 6], None, None, 1e-5),
        call("batch_norm", tensor(b, 6, n), None, None, tensor(6), tensor(6), False, 0.1, 1e-5, False),
        call("batch_norm", tensor(b, n, m), None, None, tensor(6), tensor(6), False, 0.1, 1e-5, False),
        call("instance_norm", tensor(b, 6, n), None, None, None, None, True, 0.1, 1e-5, False),
        call("group_norm", tensor(b, 6, n, m), 3, tensor(6), tensor(6)),
        call("group_norm", tensor(b, n, m), 3),
    ]


def attention(n: SizeExpr, m: SizeExpr, b: SizeExpr) -> list[Node]:
    heads = tensor(b, 4, n, 8), tensor(b, 4, m, 8), tensor(b, 4, m, 5)
    return [
        call("scaled_dot_product_attention", *heads),
        call("scaled_dot_product_attention", *heads, tensor(n, m)),
        call("scaled_dot_product_attention", *heads, tensor(2, 1, 1, m)),
        call("scaled_dot_product_attention", *heads, tensor(b, 1, 6, m, dtype=torch.bool)),
        call(
            "scaled_dot_product_attention", tensor(b + 1, 4, n + 1, 8), tensor(3, 4, m + 1, 8), tensor(3, 4, m + 1, 8)
        ),
        call("scaled_dot_product_attention", tensor(b, n, 8), tensor(b, 4, 8), tensor(b, m, 8), is_causal=True),
        call(
            "scaled_dot_product_attention",
            tensor(b, n, 4, 8),
            tensor(b, 2, m, 8),
            tensor(b, 2, m, 8),
            enable_gqa=True,
        ),
    ]


def recurrent(n: SizeExpr, m: SizeExpr, b: SizeExpr) -> list[Node]:
    weights = [tensor(12, 6), tensor(12, 3), tensor(12), tensor(12)]
    gates = [tensor(9, 6), tensor(9, 3), tensor(9), tensor(9)]
    simple = [tensor(3, 6), tensor(3, 3), tensor(3), tensor(3)]
    flags = True, 1, 0.0, False
    return [
        call("lstm.input", tensor(b, n, 6), [tensor(1, b, 3)] * 2, weights, *flags, False, True),
        call("lstm.input", tensor(n, b, 6), [tensor(2, b, 3)] * 2, weights * 2, *flags, True, False),
        call("gru.input", tensor(b, n, 6), tensor(1, b, 3), gates, *flags, False, True),
        call("gru.input", tensor(3, b, n), tensor(1, b, 3), gates, *flags, False, False),
        call("rnn_tanh.input", tensor(b, n, 6), tensor(1, b, 3), simple, *flags, False, True),
        call("rnn_relu_cell", tensor(b, 6), tensor(2, 3), *simple),
        call("lstm_cell", tensor(b, 6), [tensor(b, 3), tensor(2, 3)], *weights),
        call("gru_cell", tensor(b, 6), tensor(2, 3), *gates),
    ]


FAMILIES = (
    picked,
    written,
    ordered,
    made,
    transforms,
    products,
    matrices,
    layers,
    pools,
    resized,
    norms,
    attention,
    recurrent,
)
