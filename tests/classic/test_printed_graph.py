"""What verbose=True prints, and the lines of the model that nodes remember."""

from __future__ import annotations

import io
import re

import pytest
import torch
from torch import nn

import onnxport
from tests.classic.running import exported, graph_of

X = torch.randn(2, 3)


def printed(model: object, args: object, capsys: pytest.CaptureFixture[str], **options: object) -> str:
    onnxport.export(model, args, io.BytesIO(), verbose=True, **options)  # type: ignore[arg-type]
    return capsys.readouterr().out


def undefined(text: str) -> set[str]:
    """The values that are used in a printed graph and defined nowhere in it."""
    return set(re.findall(r"%[^\s,():]+", text)) - set(re.findall(r"(%[^\s,():]+) :", text))


@torch.jit.script
def collatz(x: torch.Tensor, rounds: torch.Tensor) -> torch.Tensor:
    for i in range(int(rounds)):
        if bool(x.sum() > i):
            x = x * 2
        else:
            x = x + 1
    return x


def test_blocks_are_indented(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(collatz, (X, torch.tensor(4)), capsys)
    lines = text.splitlines()
    loop = next(i for i, line in enumerate(lines) if "onnx::Loop" in line)
    header = re.fullmatch(
        r"    block0\((%\S+) : Long\(\), (%\S+) : Bool\(\), (%\S+) : Float\(2, 3\)\):", lines[loop + 1]
    )
    assert header, lines[loop + 1]
    branch = next(i for i, line in enumerate(lines) if "onnx::If" in line)
    assert lines[branch].startswith(" " * 6 + "%") and lines[branch + 1] == " " * 8 + "block0():"
    assert " " * 8 + "block1():" in lines
    assert re.fullmatch(r"      -> \(%\S+, %\S+\)", next(x for x in reversed(lines) if "->" in x))
    assert not undefined(text)
    then, other = text.split("block1")
    assert "onnx::Mul" in then.split("block0")[-1] and "onnx::Add" in other


def test_constants_are_shown_with_their_values(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(lambda x: (x + 2.5).reshape(3, 2) * torch.arange(100.0).reshape(50, 2)[:3], X, capsys)
    assert re.search(r"^  %\d+ : Float\(\) = onnx::Constant\[value=\{2.5\}\]\(\)$", text, re.M)
    assert re.search(r"^  %\d+ : Long\(2\) = onnx::Constant\[value=\[3, 2\]\]\(\)$", text, re.M)
    assert not undefined(text)


def test_large_constants_are_shown_by_their_shapes(capsys: pytest.CaptureFixture[str]) -> None:
    table = torch.randn(4, 3)
    assert "= onnx::Constant[value=<Tensor [4, 3]>]()" in printed(lambda x: x @ table.T, X, capsys)


def test_parameters_are_entries_of_the_graph(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(nn.Linear(3, 4), X, capsys, input_names=["rows", "kernel"])
    assert text.startswith("graph(%rows : Float(2, 3),\n      %kernel : Float(4, 3),\n      %bias : Float(4)):\n")
    assert "Constant" not in text and not undefined(text)


def test_numbers_avoid_the_names_of_inputs(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(lambda x: x.relu() + 1, X, capsys, input_names=["3"], output_names=["2"])
    defined = re.findall(r"(%[^\s,():]+) :", text)
    assert len(defined) == len(set(defined)) and not undefined(text)


# Doc strings


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Conv1d(3, 4, 1), nn.BatchNorm1d(4), nn.GELU())
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.layers(x).transpose(1, 2)
        return self.attend(x)

    def attend(self, x: torch.Tensor) -> torch.Tensor:
        return self.attention(x, x, x)[0]


class Outer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.block = Block()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.block(x) + 1


def line_of(text: str) -> int:
    with open(__file__, encoding="utf-8") as file:
        return next(number for number, line in enumerate(file, start=1) if text in line)


def is_at(line: str, text: str, name: str) -> bool:
    """Whether a line of a stack is the one with this text; Python 3.10 does not know the class of a method."""
    return re.search(rf":{line_of(text)} in ({name}\.)?forward$", line) is not None


def test_every_node_keeps_the_stack_of_user_frames() -> None:
    file = exported(Outer(), torch.randn(2, 3, 5), strip_doc_string=False)
    nodes = graph_of(file).node
    for node in nodes:
        lines = node.doc_string.splitlines()
        assert lines and all(re.fullmatch(r".*test_printed_graph.py:\d+ in [\w.]+", line) for line in lines), node
        assert is_at(lines[-1], "return self.block(x)", "Outer"), "where the outermost module calls"
    convolution = next(node for node in nodes if node.op_type == "Conv")
    assert is_at(convolution.doc_string.splitlines()[0], "x = self.layers(x)", "Block")
    softmax = next(node for node in nodes if node.op_type == "Softmax")
    names = [re.split(r"[ .]", line)[-1] for line in softmax.doc_string.splitlines()]
    assert names == ["attend", "forward", "forward"]


def test_scripted_parts_keep_theirs() -> None:
    file = exported(torch.jit.script(Outer()), torch.randn(2, 3, 5), strip_doc_string=False)
    for node in graph_of(file).node:
        assert "test_printed_graph.py:" in node.doc_string, node.name
    convolution = next(node for node in graph_of(file).node if node.op_type == "Conv")
    lines = [int(found) for found in re.findall(r"test_printed_graph.py:(\d+)", convolution.doc_string)]
    assert lines == [line_of("x = self.layers(x)"), line_of("return self.block(x)")]


def test_nothing_is_kept_unless_asked_for() -> None:
    assert not any(node.doc_string for node in graph_of(exported(Outer(), torch.randn(2, 3, 5))).node)
