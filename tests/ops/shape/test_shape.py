"""Operators that rearrange or reshape."""

from __future__ import annotations

import torch

from tests.ops.harness import ALL, FLOATS, Case, F, table

MORE = (*ALL, torch.bfloat16)

CASES = [
    Case("view", lambda x: x.view(x.size(0), -1), [F("n", 3, 4)], dtypes=MORE),
    Case("view_merge", lambda x: x.view(-1, 4), [F("n", "t", 4)], graph=["Reshape"]),
    Case("view_split", lambda x: x.view(x.size(0), x.size(1), 2, 3), [F("n", "t", 6)]),
    Case("view_moved", lambda x: x.view(x.size(1), 2, x.size(0)), [F("n", "t", 2)]),
    Case("reshape", lambda x: x.reshape(2, -1), [F(4, 3)], dtypes=ALL, graph=["Reshape"]),
    Case("reshape_heads", lambda x: x.reshape(*x.shape[:-1], 2, 4), [F("n", "t", 8)], graph=["Reshape"]),
    Case("reshape_zero_dim", lambda x: x.reshape(()), [F(1, 1)]),
    Case("reshape_empty", lambda x: x[:, :0].reshape(0, 2), [F(2, 3)], since=14),
    Case("view_as", lambda x, y: x.view_as(y), [F("n", 4), F("n", 2, 2)]),
    Case("reshape_as", lambda x, y: x.reshape_as(y), [F("n", 4), F("n", 2, 2)]),
    Case("unsafe_view", lambda x: torch.ops.aten._unsafe_view(x, [-1, 3]), [F("n", 2, 3)]),
    Case("flatten", lambda x: x.flatten(1), [F("n", 3, "t")], dtypes=MORE, graph=["Flatten"]),
    Case("flatten_all", torch.flatten, [F("n", "t")], graph=["Reshape"]),
    Case("flatten_front", lambda x: x.flatten(0, 1), [F("n", 3, "t")], graph=["Flatten"]),
    Case("flatten_middle", lambda x: x.flatten(1, 2), [F("n", "t", "s", 3)], graph=["Reshape"]),
    Case("flatten_scalar", torch.flatten, [F()]),
    Case("ravel", torch.ravel, [F("n", 4)]),
    Case("unflatten", lambda x: x.unflatten(1, (2, -1)), [F("n", 4, "t")], dtypes=ALL),
    Case("permute", lambda x: x.permute(0, -1, 1), [F("n", "t", 3)], dtypes=MORE, graph=["Transpose"]),
    Case("transpose", lambda x: x.transpose(1, -1), [F("n", "t", 3)], dtypes=ALL, graph=["Transpose"]),
    Case("transpose_scalar", lambda x: x.transpose(0, -1), [F()]),
    Case("t", lambda x: x.t(), [F("n", 3)], graph=["Transpose"]),
    Case("t_vector", lambda x: x.t(), [F("n")]),
    Case("mT", lambda x: x.mT, [F("n", 2, 3)]),
    Case("mH", lambda x: x.mH, [F("n", 2, 3)]),
    Case("H", lambda x: x.H, [F("n", 3)]),
    Case("adjoint", lambda x: x.adjoint(), [F("n", 2, 3)]),
    Case("numpy_T", lambda x: x.T, [F("n", 3)]),
    Case("movedim", lambda x: x.movedim(1, -1), [F("n", 2, 3, 4)]),
    Case("movedims", lambda x: torch.movedim(x, (0, 1), (2, 0)), [F("n", 2, 3, 4)], graph=["Transpose"]),
    Case("moveaxis", lambda x: torch.moveaxis(x, 0, 2), [F("n", 2, 3, 4)]),
    Case("swapaxes", lambda x: x.swapaxes(0, 1), [F("n", 2)]),
    Case("swapdims", lambda x: x.swapdims(0, -1), [F("n", 2, 3)]),
    Case("squeeze", lambda x: x.squeeze(), [F(1, "t", 1, 3)], dtypes=MORE, graph=["Squeeze"]),
    Case("squeeze_dim", lambda x: x.squeeze(-2), [F("n", 1, 3)], dtypes=ALL),
    Case("squeeze_dim_kept", lambda x: x.squeeze(1) + 0, [F("n", 2, 3)]),
    Case("squeeze_dims", lambda x: x.squeeze((0, -1, 1)), [F(1, "t", 3, 1)]),
    Case("unsqueeze", lambda x: x.unsqueeze(-1), [F("n", 3)], dtypes=MORE, graph=["Unsqueeze"]),
    Case("unsqueeze_scalar", lambda x: x.unsqueeze(0), [F()]),
    Case("expand", lambda x: x.expand(4, -1, 3), [F("n", 1)], dtypes=MORE, graph=["Expand"]),
    Case("expand_size", lambda x, y: x.expand(y.size(0), y.size(1), -1), [F(1, 1, 3), F("n", "t")], dtypes=ALL),
    Case("expand_scalar", lambda x: x.expand(2, 3), [F()]),
    Case("expand_as", lambda x, y: x.expand_as(y), [F("n", 1), F("n", "t")]),
    Case("broadcast_to", lambda x: torch.broadcast_to(x, (2, *x.shape)), [F("n", 3)]),
    Case("broadcast_tensors", torch.broadcast_tensors, [F("n", 1), F("t")]),
    Case("atleast_1d", torch.atleast_1d, [F()], dtypes=ALL),
    Case("atleast_2d", torch.atleast_2d, [F("n"), F()]),
    Case("atleast_3d", torch.atleast_3d, [F("n"), F("n", 2), F()], dtypes=FLOATS),
]  # fmt: skip

test_shape = table(CASES)
