"""RNN, LSTM and GRU: layers, cells, packed sequences."""

from __future__ import annotations

import io

import onnx
import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

import onnxport
from onnxport.graph.ir import Block, Graph, Node, TensorType, Value
from onnxport.lower.walk import Lowering
from onnxport.ops import REGISTRY
from onnxport.optimize import optimize
from onnxport.save.proto import serialize
from onnxport.verification.runtime import Session
from tests.ops.harness import Case, F, Input, X, compare, operators, table

KINDS = {"lstm": nn.LSTM, "gru": nn.GRU, "rnn": nn.RNN}


def states(kind: str, count: int, width: int = 6) -> list[Input]:
    return [F(count, "n", width)] * (2 if kind == "lstm" else 1)


class WithStates(nn.Module):
    """A recurrent network that takes its states as separate inputs."""

    def __init__(self, kind: str, *args: object, **options: object) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.inner = KINDS[kind](*args, **options)
        self.eval()

    def forward(self, x: torch.Tensor, *given: torch.Tensor) -> tuple[torch.Tensor, ...]:
        output, last = self.inner(x, tuple(given) if len(given) == 2 else given[0])
        return (output, *last) if isinstance(last, tuple) else (output, last)


def network(kind: str, *args: object, **options: object) -> nn.Module:
    torch.manual_seed(0)
    made: nn.Module = KINDS[kind](*args, **options).eval()
    return made


BFLOAT = (torch.float64, torch.float16, torch.bfloat16)
GRAPHS = {"lstm": ["LSTM", "Squeeze"], "gru": ["GRU", "Squeeze"], "rnn": ["RNN", "Squeeze"]}

# float64 is a Scan, which ONNX has in this form from opset 9: ONNX Runtime's recurrent kernels compute float32 alone.
LAYERS = [
    case
    for kind in KINDS
    for case in (
        Case(kind, network(kind, 5, 6), [F("t", "n", 5)], dtypes=BFLOAT, graph=GRAPHS[kind]),
        Case(f"{kind}_states", WithStates(kind, 5, 6), [F("t", "n", 5), *states(kind, 1)], graph=GRAPHS[kind]),
        Case(f"{kind}_no_bias", network(kind, 5, 6, bias=False), [F("t", "n", 5)], graph=GRAPHS[kind]),
        Case(f"{kind}_batch_first", network(kind, 5, 6, batch_first=True), [F("n", "t", 5)]),
        Case(f"{kind}_both", network(kind, 5, 6, bidirectional=True), [F("t", "n", 5)], dtypes=BFLOAT,
             graph=[kind.upper(), "Transpose", "Reshape"]),
        Case(f"{kind}_both_layers", WithStates(kind, 5, 6, num_layers=3, bidirectional=True, batch_first=True),
             [F("n", "t", 5), *states(kind, 6)]),
        Case(f"{kind}_unbatched", network(kind, 5, 6, num_layers=2), [F("t", 5)]),
        Case(f"{kind}_dropout_in_eval", network(kind, 5, 6, num_layers=2, dropout=0.5), [F("t", "n", 5)], dtypes=()),
        Case(f"{kind}_dropout", network(kind, 5, 6, num_layers=2, dropout=0.5).train(), [F("t", "n", 5)], dtypes=(),
             content=False, keywords={"training": onnxport.TrainingMode.PRESERVE}),
    )
]  # fmt: skip

OTHERS = [
    Case("rnn_relu", network("rnn", 5, 6, nonlinearity="relu"), [F("t", "n", 5)], graph=GRAPHS["rnn"]),
    Case("rnn_relu_both", network("rnn", 5, 6, 2, nonlinearity="relu", bidirectional=True), [F("t", "n", 5)]),
    Case("lstm_projection", network("lstm", 5, 6, proj_size=3), [F("t", "n", 5)], since=9, dtypes=BFLOAT),
    Case("lstm_projection_both", network("lstm", 5, 6, 2, proj_size=3, bidirectional=True, batch_first=True),
         [F("n", "t", 5)], since=9),
    Case("lstm_projection_no_bias", network("lstm", 5, 6, proj_size=3, bias=False), [F("t", "n", 5)], since=9),
]  # fmt: skip


def cell(kind: type[nn.Module], *args: object, **options: object) -> nn.Module:
    torch.manual_seed(0)
    return kind(*args, **options).eval()


class LstmCell(nn.LSTMCell):
    """A cell that takes its states as separate inputs."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        super().__init__(5, 6)

    def forward(self, x: torch.Tensor, h: torch.Tensor, c: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return super().forward(x, (h, c))


class Steps(nn.Module):
    """A cell called in a Python loop, the weights shared by its steps."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.cell = nn.GRUCell(5, 6)

    def forward(self, x: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
        for index in range(3):
            state = self.cell(x[index], state)
        return state


# torch traces what a cell consists of; captures that keep it whole are below.
CELLS = [
    Case("lstm_cell", LstmCell(), [F("n", 5), F("n", 6), F("n", 6)], dtypes=BFLOAT),
    Case("lstm_cell_zeros", cell(nn.LSTMCell, 5, 6), [F("n", 5)]),
    Case("gru_cell", cell(nn.GRUCell, 5, 6), [F("n", 5), F("n", 6)]),
    Case("rnn_cell", cell(nn.RNNCell, 5, 6), [F("n", 5), F("n", 6)]),
    Case("rnn_cell_relu", cell(nn.RNNCell, 5, 6, nonlinearity="relu"), [F("n", 5), F("n", 6)]),
    Case("gru_cell_unbatched", cell(nn.GRUCell, 5, 6), [F(5), F(6)]),
    Case("gru_cell_steps", Steps(), [F(3, "n", 5), F("n", 6)]),
]


class Packed(nn.Module):
    """A recurrent network between packing and padding."""

    def __init__(
        self, kind: str, *, in_order: bool = False, rows: bool = False, total: int | None = None, fill: float = 0.0,
        **options: object,
    ) -> None:  # fmt: skip
        super().__init__()
        torch.manual_seed(0)
        self.inner = KINDS[kind](5, 6, **options)
        self.in_order, self.rows, self.total, self.fill = in_order, rows, total, fill
        self.first = self.inner.batch_first
        self.eval()

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> tuple[object, ...]:
        packed = pack_padded_sequence(x, lengths, batch_first=self.first, enforce_sorted=self.in_order)
        if self.rows:
            packed = PackedSequence(packed.data * 2, *packed[1:])
        output, last = self.inner(packed)
        total = x.shape[0] if self.total == -1 else self.total
        padded = pad_packed_sequence(output, self.first, self.fill, total)
        return (*padded, output.data if self.rows else last)


def lengths_in_order(shape: tuple[int, ...]) -> torch.Tensor:
    return torch.tensor([6, 4, 4][: shape[0]])


def lengths_unordered(shape: tuple[int, ...]) -> torch.Tensor:
    return (torch.arange(shape[0]) * 5) % 6 + 1


LENGTHS = X("n", make=lengths_unordered, dtype=torch.int64)
IN_ORDER = X(2, make=lengths_in_order, dtype=torch.int64)

PACKED = [
    *(
        Case(f"packed_{kind}", Packed(kind, in_order=True), [F(6, 2, 5), IN_ORDER], since=9, dtypes=BFLOAT)
        for kind in KINDS
    ),
    *(
        Case(f"packed_{kind}_both", Packed(kind, num_layers=2, bidirectional=True), [F(6, "n", 5), LENGTHS], since=9,
             dynamic_since=10)
        for kind in KINDS
    ),
    Case("packed_batch_first", Packed("lstm", batch_first=True), [F("n", 6, 5), LENGTHS], since=9, dynamic_since=10),
    Case("packed_projection", Packed("lstm", bidirectional=True, proj_size=3), [F(6, "n", 5), LENGTHS], since=9,
         dynamic_since=10),
    Case("packed_steps", Packed("lstm", bidirectional=True), [F("t", "n", 5), LENGTHS], since=9, dynamic_since=10),
    Case("packed_projection_steps", Packed("lstm", proj_size=3), [F("t", "n", 5), LENGTHS], since=9, dynamic_since=10,
         dtypes=()),
    Case("packed_total_steps", Packed("rnn", total=-1), [F("t", "n", 5), LENGTHS], since=9, dynamic_since=10),
    Case("packed_total", Packed("gru", total=8), [F(6, "n", 5), LENGTHS], since=9, dynamic_since=10),
    Case("packed_fill", Packed("gru", fill=-1.5), [F(6, "n", 5), LENGTHS], since=9, dynamic_since=10),
    Case("packed_rows", Packed("gru", rows=True), [F(6, "n", 5), LENGTHS], since=11),
]  # fmt: skip

test_layers = table(LAYERS)
test_others = table(OTHERS)
test_cells = table(CELLS)
test_packed = table(PACKED)


def export(model: nn.Module, inputs: tuple[torch.Tensor, ...], **options: object) -> bytes:
    target = io.BytesIO()
    onnxport.export(model, inputs, target, input_names=[f"x{i}" for i in range(len(inputs))], **options)
    return target.getvalue()


WHOLE_CELLS = {
    "lstm_cell": (torch.lstm_cell, 4, ["Unsqueeze", "Unsqueeze", "Unsqueeze", "LSTM", "Squeeze", "Squeeze"]),
    "gru_cell": (torch.gru_cell, 3, ["Unsqueeze", "Unsqueeze", "GRU", "Squeeze"]),
    "rnn_tanh_cell": (torch.rnn_tanh_cell, 1, ["Unsqueeze", "Unsqueeze", "RNN", "Squeeze"]),
    "rnn_relu_cell": (torch.rnn_relu_cell, 1, ["Unsqueeze", "Unsqueeze", "RNN", "Squeeze"]),
}


@pytest.mark.parametrize("name", WHOLE_CELLS)
@pytest.mark.parametrize("has_bias", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_whole_cell(name: str, has_bias: bool, dtype: torch.dtype) -> None:
    function, gates, nodes = WHOLE_CELLS[name]
    torch.manual_seed(0)
    x, *states = [torch.randn(2, width, dtype=dtype) for width in (5, 6, 6)[: 3 if name == "lstm_cell" else 2]]
    weights = [torch.randn(gates * 6, width, dtype=dtype) for width in (5, 6)]
    biases = [torch.randn(gates * 6, dtype=dtype) for _ in range(2)] if has_bias else [None, None]
    expected = function(x, states if len(states) == 2 else states[0], *weights, *biases)
    expected = list(expected) if isinstance(expected, tuple) else [expected]
    values = [Value(TensorType(dtype, tuple(tensor.shape))) for tensor in (x, *states)]
    parameters = [
        None if tensor is None else Value(TensorType(dtype, tuple(tensor.shape)), data=tensor)
        for tensor in (*weights, *biases)
    ]
    hx = values[1:] if len(states) == 2 else values[1]
    keys = ("input", "hx", "w_ih", "w_hh", "b_ih", "b_hh")
    outputs = [Value(TensorType(dtype, tuple(tensor.shape))) for tensor in expected]
    node = Node(f"aten::{name}", dict(zip(keys, (values[0], hx, *parameters), strict=True)), outputs)
    known = [parameter for parameter in parameters if parameter is not None]
    graph = Graph(Block(values, [node], outputs), known)
    lowering = Lowering(graph, REGISTRY, 20, bake_parameters=True, train=False)
    names = [[f"{kind}{i}" for i in range(len(of))] for kind, of in (("x", values), ("w", known), ("y", outputs))]
    model = lowering.run(*names)
    optimize(model)
    data = serialize(model)
    if dtype == torch.float32:
        assert operators(data) == nodes
    actual = Session(data).run({f"x{i}": tensor for i, tensor in enumerate((x, *states))})
    compare(expected, actual, True, 1.0)


def test_packed_sequences_follow_the_lengths_given_at_run_time() -> None:
    model = Packed("lstm", in_order=True, bidirectional=True)
    data = export(model, (torch.randn(6, 3, 5), torch.tensor([6, 4, 2])))
    session = Session(data)
    for lengths in ([6, 6, 6], [3, 2, 1], [5, 5, 1]):
        inputs = (torch.randn(6, 3, 5), torch.tensor(lengths))
        with torch.no_grad():
            expected = model(*inputs)
        actual = session.run({"x0": inputs[0], "x1": inputs[1]})
        compare([expected[0], expected[1], *expected[2]], actual, True, 1.0)


class Tagger(Packed):
    """Works on the padded output of a packed sequence."""

    def __init__(self) -> None:
        super().__init__("lstm", in_order=True)
        self.out = nn.Linear(6, 3)

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> tuple[object, ...]:
        return (self.out(super().forward(x, lengths)[0]),)  # type: ignore[arg-type]


def test_what_follows_a_packed_sequence_takes_other_lengths() -> None:
    model, x = Tagger(), torch.randn(6, 3, 5)
    session = Session(export(model, (x, torch.tensor([6, 4, 2]))))
    shorter = torch.tensor([3, 2, 1])
    with torch.no_grad():
        compare(model(x, shorter), session.run({"x0": x, "x1": shorter}), True, 1.0)


@pytest.mark.parametrize("kind", KINDS)
def test_each_layer_is_one_node(kind: str) -> None:
    model = WithStates(kind, 5, 6, num_layers=3, bidirectional=True)
    count = 2 if kind == "lstm" else 1
    data = export(model, (torch.randn(4, 2, 5), *[torch.randn(6, 2, 6)] * count))
    names = operators(data)
    assert names.count(kind.upper()) == 3
    assert not set(names) & {"Gather", "Slice", "Unsqueeze"}


@pytest.mark.parametrize("kind", KINDS)
def test_weights_as_inputs_and_unfolded(kind: str) -> None:
    model = WithStates(kind, 5, 6, num_layers=2, bidirectional=True)
    inputs = (torch.randn(4, 2, 5), *[torch.randn(4, 2, 6)] * (2 if kind == "lstm" else 1))
    for options in ({"do_constant_folding": False}, {"export_params": False}):
        data = export(model, inputs, **options)
        given = {f"x{i}": tensor for i, tensor in enumerate(inputs)}
        if "export_params" in options:
            parameters = dict(model.named_parameters())
            wanted = {value.name for value in onnx.load_from_string(data).graph.input} - set(given)
            assert wanted == set(parameters)
            given |= {name: tensor.detach() for name, tensor in parameters.items()}
        with torch.no_grad():
            compare(model(*inputs), Session(data).run(given), True, 1.0)
