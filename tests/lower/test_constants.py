"""What a model computes from its parameters alone, where ONNX has no form for it or needs a loop."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import onnxport


class Shifted(nn.Module):
    def __init__(self, shift: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 4))
        self.shift = shift

    def forward(self, x: Tensor) -> Tensor:
        return x + self.shift(self.weight)


AXES = {"x": {0: "batch"}}
SHIFTS = {
    "no form in ONNX": lambda w: torch.linalg.eigvals(w).abs().sum(),
    "complex in between": lambda w: (torch.linalg.eig(w).eigenvalues * 2j).imag.sum(),
    "a loop": torch.matrix_exp,
    "a loop, several results": lambda w: torch.linalg.svd(w).S,
    "signs that no definition decides": lambda w: torch.linalg.eigh(w @ w.T).eigenvectors,
    "steps before and after": lambda w: torch.linalg.pinv(w.abs() + 1).T.sin(),
    "of a view": lambda w: torch.linalg.eigvals(w[1:, 1:]).abs().sum(),
}


@pytest.mark.parametrize("shift", SHIFTS.values(), ids=SHIFTS)
def test_torch_computes_it(shift: Callable[[Tensor], Tensor]) -> None:
    model = Shifted(shift)
    program = onnxport.export(model, torch.randn(2, 4, 4), dynamic_axes=AXES)
    assert program.report.operators == {"Add": 1}
    for batch in (1, 5):
        x = torch.randn(batch, 4, 4)
        torch.testing.assert_close(program(x), model(x))


def test_parametrizations_are_folded() -> None:
    layer = nn.utils.parametrizations.orthogonal(nn.Linear(4, 4)).eval()
    program = onnxport.export(layer, torch.randn(2, 4))
    assert program.report.operators == {"Gemm": 1}


def test_what_depends_on_the_input_is_not() -> None:
    with pytest.raises(onnxport.UnsupportedOperatorError, match="linalg_eigvals"):
        onnxport.export(lambda x: torch.linalg.eigvals(x).abs(), torch.randn(3, 3))


def test_without_folding_the_nodes_stay() -> None:
    model = Shifted(torch.matrix_exp)
    assert "Loop" in onnxport.export(model, torch.randn(2, 4, 4), do_constant_folding=False).report.operators
    training = onnxport.TrainingMode.TRAINING
    assert "Loop" in onnxport.export(model, torch.randn(2, 4, 4), training=training).report.operators


def test_random_numbers_are_drawn_each_time() -> None:
    program = onnxport.export(lambda x: x + torch.linalg.svdvals(torch.randn(4, 4)), torch.zeros(4))
    assert not torch.equal(program(torch.zeros(4)), program(torch.zeros(4)))


def test_sparse_results_are_refused() -> None:
    with pytest.raises(onnxport.UnsupportedOperatorError, match="sparse"):
        onnxport.export(Shifted(lambda w: torch.sparse.mm(w.detach().to_sparse(), w)), torch.randn(4, 4))
