"""Dynamically quantized LSTM, GRU and cells of torch.ao."""

from __future__ import annotations

from typing import Any

import onnx
import pytest
import torch
from onnx import numpy_helper
from torch import Tensor, nn

import onnxport
from tests.quant.models import ops, run

pytestmark = pytest.mark.filterwarnings("ignore")
SETTINGS = {"plain": {}, "two layers, both directions": {"num_layers": 2, "bidirectional": True}}


class Recurrent(nn.Module):
    """All results of a layer over [batch, time, features]."""

    def __init__(self, kind: type[nn.RNNBase], size: int = 6, hidden: int = 5, **settings: Any) -> None:
        super().__init__()
        self.layer = kind(size, hidden, batch_first=True, **settings)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        output, states = self.layer(x)
        return (output, *(states if isinstance(states, tuple) else (states,)))


def dynamic(model: nn.Module, *kinds: type[nn.Module], dtype: torch.dtype = torch.qint8) -> nn.Module:
    return torch.ao.quantization.quantize_dynamic(model.eval(), set(kinds), dtype=dtype)


def same(results: list[Tensor], expected: Any, tolerance: float = 1e-5) -> None:
    for result, wanted in zip(results, expected, strict=True):
        assert result.dtype == wanted.dtype and result.shape == wanted.shape
        torch.testing.assert_close(result, wanted, rtol=0, atol=tolerance)


@pytest.mark.parametrize("dtype", [torch.qint8, torch.float16])
@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
def test_layers(kind, settings, dtype, tmp_path) -> None:
    torch.manual_seed(0)
    model = dynamic(Recurrent(kind, **settings), kind, dtype=dtype)
    onnxport.export(
        model, torch.randn(2, 3, 6), tmp_path / "m.onnx", input_names=["x"], dynamic_axes={"x": {0: "n", 1: "t"}}
    )
    for batch, time in ((1, 1), (3, 7)):
        x = torch.randn(batch, time, 6)
        same(run(tmp_path / "m.onnx", x), model(x))
    found = ops(tmp_path / "m.onnx")
    assert ("Scan" in found and "MatMulInteger" in found) == (dtype == torch.qint8)
    assert (kind.__name__ in found) == (dtype == torch.float16)


def test_states_that_are_given(tmp_path) -> None:
    class Given(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.LSTM(6, 5)

        def forward(self, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            output, (h, c) = self.layer(x, (h, c))
            return output, h, c

    torch.manual_seed(0)
    model = dynamic(Given(), nn.LSTM)
    onnxport.export(model, (torch.randn(3, 2, 6), *torch.randn(2, 1, 2, 5)), tmp_path / "m.onnx")
    inputs = (torch.randn(3, 2, 6), *torch.randn(2, 1, 2, 5))
    same(run(tmp_path / "m.onnx", *inputs), model(*inputs))


@pytest.mark.parametrize("kind", [nn.LSTMCell, nn.GRUCell, nn.RNNCell])
def test_cells(kind, tmp_path) -> None:
    class Cell(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell = kind(6, 5)

        def forward(self, x: Tensor, h: Tensor, c: Tensor) -> Any:
            return self.cell(x, (h, c)) if kind is nn.LSTMCell else (self.cell(x, h), c)

    torch.manual_seed(0)
    model = dynamic(Cell(), kind)
    draw = lambda batch: (torch.randn(batch, 6), torch.randn(batch, 5), torch.randn(batch, 5))  # noqa: E731
    onnxport.export(
        model, draw(2), tmp_path / "m.onnx", input_names=["x", "h", "c"],
        dynamic_axes={name: {0: "n"} for name in "xhc"},
    )  # fmt: skip
    inputs = draw(4)
    same(run(tmp_path / "m.onnx", *inputs), model(*inputs))
    assert ops(tmp_path / "m.onnx").count("MatMulInteger") == 2


@pytest.mark.parametrize(("kind", "hidden", "time"), [(nn.LSTM, 256, 60), (nn.GRU, 512, 40)])
def test_a_rounding_that_falls_the_other_way_is_no_error(kind, hidden, time) -> None:
    """In so many steps some number is next to the middle between two integers, and all later steps show it."""
    torch.manual_seed(0)
    model = dynamic(Recurrent(kind, hidden, hidden), kind)
    x = torch.randn(4, time, hidden)
    program = onnxport.export(model, x, input_names=["x"], dynamic_axes={"x": {0: "n", 1: "t"}})
    assert program.verification.passed and len(program.verification.cases) >= 3


@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize("wrong", ["scale", "weight"])
def test_a_wrong_layer_is_found(wrong, fixed, tmp_path) -> None:
    torch.manual_seed(0)
    model, x = dynamic(Recurrent(nn.LSTM, 64, 64), nn.LSTM), torch.randn(4, 20, 64)
    path = tmp_path / "m.onnx"
    onnxport.export(model, x, path, input_names=["x"], dynamic_axes={} if fixed else {"x": {0: "n", 1: "t"}})
    proto = onnx.load(path)
    for tensor in proto.graph.initializer:
        array = numpy_helper.to_array(tensor)
        if wrong == "weight" and array.dtype == "int8" and array.ndim == 2:
            array = array[:, ::-1]
        elif wrong == "scale" and array.dtype == "float32" and array.ndim == 0 and 0 < array < 0.01 and array > 1e-6:
            array = array * array.dtype.type(1.01)
        tensor.CopyFrom(numpy_helper.from_array(array.copy(), tensor.name))
    onnx.save(proto, path)
    assert not onnxport.verify(path, model, x).passed


def test_packed_sequences_are_refused() -> None:
    """The range of a state counts only the sequences that still run, which the file cannot tell."""

    class Packed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.LSTM(6, 5)

        def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
            packed = nn.utils.rnn.pack_padded_sequence(x, lengths)
            return nn.utils.rnn.pad_packed_sequence(self.layer(packed)[0])[0]

    with pytest.raises(onnxport.ExportError, match="quantized_lstm"):
        onnxport.export(dynamic(Packed(), nn.LSTM), (torch.randn(4, 2, 6), torch.tensor([4, 2])))
