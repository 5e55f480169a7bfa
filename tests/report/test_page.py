"""The report page of an export: what is on it, for models that pass, fail and are refused."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import onnx
import pytest
import torch
from torch import nn

import onnxport
from tests.report.html_page import HtmlPage


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(6, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sin(self.fc(x))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = Block()
        self.second = Block()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(torch.tanh(self.first(x))) * (2 * int(x.shape[0]) + 1)


def exported(folder: Path, model: Any, x: torch.Tensor, **keywords: Any) -> tuple[onnxport.Program, HtmlPage]:
    program = onnxport.export(model, x, folder / "m.onnx", report=True, **keywords)
    return program, HtmlPage.read(folder / "m.html")


def test_nodes_are_in_their_modules_in_order(tmp_path: Path) -> None:
    _, page = exported(tmp_path, Net(), torch.randn(3, 6), dynamic_axes={"x": {0: "n"}})
    nodes = page.all("data-op")
    proto = onnx.load(tmp_path / "m.onnx")
    assert Counter(node.attributes["data-op"] for node in nodes) == Counter(node.op_type for node in proto.graph.node)
    paths = [element.attributes["data-module"] for element in page.all("data-module")]
    assert paths == ["first", "first.fc", "second", "second.fc"]
    (tanh,) = page.all("data-op", "Tanh")
    assert not [element for element in tanh.above() if "data-module" in element.attributes]
    assert "self.second(torch.tanh(self.first(x)))" in tanh.text and "float32[n, 6]" in tanh.text


def test_axes_numbers_and_runs_are_told(tmp_path: Path) -> None:
    program, page = exported(tmp_path, Net(), torch.randn(3, 6), dynamic_axes={"x": {0: "n"}})
    axes = page.one("id", "axes").text
    assert "x[0]" in axes and "test_page.py" in axes, "numbers that Python computed from sizes are here"
    runs = page.one("id", "cases").text
    assert all(f"n={case.sizes['n']}" in runs for case in program.verification.cases)
    assert page.report == program.report.to_json() | {"phases": page.report["phases"]}


def test_branches_and_functions_have_their_nodes(tmp_path: Path) -> None:
    def branches(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,))

    program, page = exported(tmp_path, branches, torch.randn(3))
    nodes = Counter(node.attributes["data-op"] for node in page.all("data-op"))
    assert nodes == Counter(program.report.operators)
    (sine,) = page.all("data-op", "Sin")
    assert any(element.attributes.get("data-op") == "If" for element in sine.above())

    program, page = exported(tmp_path, Net(), torch.randn(3, 6), export_modules_as_functions={Block})
    assert sum(nodes.values()) and len(page.all("data-op")) == program.report.nodes
    assert len({element.attributes["id"] for element in page.all("id")}) == len(page.all("id")), "ids are unique"


def test_warnings_and_notes_are_told(tmp_path: Path) -> None:
    def freezes(x: torch.Tensor) -> torch.Tensor:
        return x * float(x.detach().numpy().max())

    with pytest.warns(onnxport.TraceWarning):
        _, page = exported(tmp_path, freezes, torch.randn(3), verify=False)
    assert page.one("id", "verdict").attributes["data-verdict"] == "unchecked"
    assert "frozen" in page.one("id", "warnings").text and "verify=False" in page.one("id", "warnings").text


class Breaks(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.view(7, -1)


def test_a_models_own_error_is_on_the_page_and_a_wrong_argument_is_not(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="invalid for input"):
        onnxport.export(Breaks(), torch.randn(3, 3), tmp_path / "m.onnx", report=True)
    page = HtmlPage.read(tmp_path / "m.html")
    assert page.report["verdict"] == "refused" and page.report["error"]["type"] == "RuntimeError"
    assert not page.all("data-op") and "RuntimeError" in page.one("id", "verdict").text
    with pytest.raises(onnxport.OptionError):
        onnxport.export(Breaks(), torch.randn(3, 3), tmp_path / "n.onnx", report=True, input_names=["a", "b"])
    assert not (tmp_path / "n.html").exists()


def wrong_sine(g: Any, self: Any) -> Any:
    return g.op("Sin", g.op("Mul", self, 1.001))


def test_a_mismatch_is_shown_at_its_node(tmp_path: Path) -> None:
    wrong = onnxport.converter("aten::sin")(wrong_sine)
    try:
        with pytest.raises(onnxport.VerificationError):
            exported(tmp_path, Net(), torch.randn(3, 6), dynamic_axes={"x": {0: "n"}})
    finally:
        wrong.unregister()
    page = HtmlPage.read(tmp_path / "m.html")
    assert page.report["verdict"] == "failed" and page.report["mismatch"]["operator"] == "aten::sin"
    assert page.report["axes"][0]["traced"] == [3] and any(case["problems"] for case in page.report["cases"])
    mark = page.one("data-first-wrong")
    assert any(element.tag == "svg" for element in mark.above())
    target = str(mark.attributes["href"]).removeprefix("#")
    (node,) = page.all("id", target)
    assert node.attributes["class"] == "wrong" and "first" in [e.attributes.get("data-module") for e in node.above()]
    assert "torch.sin(self.fc(x))" in node.text


def test_a_mismatch_of_shapes_has_its_place_on_the_plot(tmp_path: Path) -> None:
    @onnxport.converter("aten::sin")
    def wrong(g: Any, self: Any) -> Any:
        return g.op("Concat", self, self, axis_i=0)

    try:
        with pytest.raises(onnxport.VerificationError):
            exported(tmp_path, lambda x: torch.sin(x) + 1, torch.randn(3, 6))
    finally:
        wrong.unregister()
    page = HtmlPage.read(tmp_path / "m.html")
    assert page.report["cases"][0]["problems"] and "aten::sin" in page.one("data-first-wrong").text


@pytest.mark.parametrize("report", [3, b"m.html"])
def test_what_is_no_path_is_told(report: Any) -> None:
    with pytest.raises(TypeError, match="report"):
        onnxport.export(nn.Linear(2, 2), torch.randn(1, 2), report=report)


def test_the_page_is_not_the_model(tmp_path: Path) -> None:
    for report in (True, tmp_path / "m.html"):
        with pytest.raises(onnxport.OptionError, match=r"report.*m\.html"):
            onnxport.export(nn.Linear(2, 2), torch.randn(1, 2), tmp_path / "m.html", report=report)
    assert not list(tmp_path.iterdir())


def test_the_page_is_replaced_whole_and_stays_where_the_export_is_stopped(tmp_path: Path) -> None:
    (tmp_path / "m.html").write_text("old")

    def stop(phase: str, done: int, total: int | None) -> None:
        if phase == "verify":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        onnxport.export(nn.Linear(2, 2), torch.randn(1, 2), tmp_path / "m.onnx", report=True, progress=stop)
    assert (tmp_path / "m.html").read_text() == "old"
    exported(tmp_path, nn.Linear(2, 2), torch.randn(1, 2))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.html", "m.onnx"]


def test_a_notebook_gets_a_short_form_of_a_large_interface() -> None:
    def many(*tensors: torch.Tensor) -> list[torch.Tensor]:
        return [tensor + 1 for tensor in tensors]

    html = onnxport.export(many, tuple(torch.randn(2) for _ in range(80)))._repr_html_()
    assert len(html) < 20_000 and "140 more" in html and not HtmlPage(html).all("onclick")
