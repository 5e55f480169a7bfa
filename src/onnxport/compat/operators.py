"""Functions for use inside models that are to be exported."""

from __future__ import annotations

import torch

from onnxport import compat


def shape_as_tensor(x: torch.Tensor) -> torch.Tensor:
    """The shape of a tensor as a 1-D int64 tensor that stays symbolic in the exported graph."""
    return compat.shape_as_tensor(x)


def reshape_from_tensor_shape(x: torch.Tensor, shape: torch.Tensor) -> torch.Tensor:
    """A tensor in the shape that a 1-D int64 tensor holds, which stays an input of the exported Reshape."""
    return x.reshape(shape.tolist())
