"""Numbers among the arguments of a call that are equal in the example, and differ elsewhere."""

from __future__ import annotations

import torch

import onnxport


def test_a_tensor_as_a_size_beside_an_equal_number() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        rows = torch.div(x.shape[1], 4, rounding_mode="trunc") - 1
        return x.new_zeros((x.shape[0], rows + 1, 4)) + x[:, :1, None]

    program = onnxport.export(model, torch.randn(2, 16), input_names=["x"], dynamic_axes={"x": {0: "b", 1: "n"}})
    for shape in ((2, 40), (3, 8)):
        x = torch.randn(shape)
        torch.testing.assert_close(program(x), model(x))
