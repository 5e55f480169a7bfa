"""`onnxport inspect`, `diff`, `run` and `verify`: commands about files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

import onnxport
from tests.cli.conftest import Command


def changed(path: Path, name: str, change: Callable[[onnx.ModelProto], object]) -> str:
    proto = onnx.load(path)
    change(proto)
    onnx.save(proto, path.with_name(name))
    return name


def test_inspect_any_file(tiny: Path, command: Command) -> None:
    done = command("inspect", "tiny.onnx", "--json")
    assert done.code == 0 and done.said["inputs"] == [{"name": "image", "type": "float32", "shape": ["batch", 3, 8, 8]}]
    assert done.said["producer"] == f"onnxport {onnxport.__version__}"
    assert done.said["file_bytes"] == tiny.stat().st_size
    stored = [onnx.numpy_helper.to_array(tensor) for tensor in onnx.load(tiny).graph.initializer]
    assert done.said["weight_bytes"] == sum(array.nbytes for array in stored)
    assert done.said["parameters"] == sum(array.size for array in stored)
    shown = command("inspect", "tiny.onnx", "--graph")
    assert "Conv" in shown.out and "[batch, 3, 8, 8]" in shown.out and "conv.weight" in shown.out and not shown.err


def test_inspect_counts_external_data_blocks_and_functions(folder: Path, command: Command) -> None:
    onnxport.export(torch.nn.Linear(300, 300), torch.randn(2, 300), "m.onnx", external_data=True)
    said = command("inspect", "m.onnx", "--json").said
    assert said["file_bytes"] == (folder / "m.onnx").stat().st_size + (folder / "m.onnx.data").stat().st_size
    assert said["parameters"] == 300 * 301

    def branches(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,))

    program = onnxport.export(branches, torch.randn(3), "b.onnx")
    assert command("inspect", "b.onnx", "--json").said["operators"] == program.report.operators


@pytest.mark.parametrize("words", [["inspect"], ["diff", "tiny.onnx"], ["verify"], ["run"]])
@pytest.mark.parametrize("content", [b"", b"def f(): pass\n" * 9, b"\x08\x0a"])
def test_files_that_are_no_models_are_told(tiny: Path, command: Command, words: list[str], content: bytes) -> None:
    tiny.with_name("bad.onnx").write_bytes(content)
    rest = {"verify": ["models.py:build"], "run": ["--inputs", "in.npz", "-o", "o.npz"]}.get(words[0], [])
    done = command(*words, "bad.onnx", *rest)
    assert done.code == 2 and not done.out and done.is_one_paragraph and "bad.onnx" in done.err


def test_diff_of_interfaces_weights_and_outputs(tiny: Path, command: Command) -> None:
    def rename(proto: onnx.ModelProto) -> None:
        proto.graph.output[0].name = proto.graph.node[-1].output[0] = "logits"

    def reshape(proto: onnx.ModelProto) -> None:
        weight = proto.graph.initializer[0]
        weight.name = f"{weight.name}_new"
        for node in proto.graph.node:
            for place, name in enumerate(node.input):
                if f"{name}_new" == weight.name:
                    node.input[place] = weight.name

    def names_only(proto: onnx.ModelProto) -> None:
        inner = proto.graph.node[0].output[0]
        proto.graph.node[0].output[0] = proto.graph.node[1].input[0] = f"{inner}_renamed"
        proto.graph.node[0].name = "something else"

    said = command("diff", "tiny.onnx", changed(tiny, "b.onnx", rename), "--json").said
    assert said["interface"]["inputs"] is None and said["interface"]["outputs"][1][0]["name"] == "logits"
    assert said["same"] is False and said["outputs"] is None, "the values are the same"
    said = command("diff", "tiny.onnx", changed(tiny, "c.onnx", reshape), "--json").said
    assert said["weights"]["added"] == [f"{said['weights']['removed'][0]}_new"] and said["outputs"] is None
    done = command("diff", "tiny.onnx", changed(tiny, "d.onnx", names_only), "--json")
    assert done.code == 0 and done.said["same"] is True
    done = command("diff", "tiny.onnx", "tiny.onnx")
    assert done.code == 0 and "are the same" in done.out


def test_diff_sees_attributes_by_what_they_change(tiny: Path, command: Command) -> None:
    def strides(proto: onnx.ModelProto) -> None:
        node = next(node for node in proto.graph.node if node.op_type == "Conv")
        for attribute in node.attribute:
            if attribute.name == "pads":
                attribute.ints[:] = [0, 0, 0, 0]

    done = command("diff", "tiny.onnx", changed(tiny, "e.onnx", strides), "--json")
    assert done.code == 1 and done.said["operators"] == {} and done.said["interface"] is None
    assert next(iter(done.said["outputs"].values())) > 0


def test_run_checks_what_it_is_given(tiny: Path, command: Command) -> None:
    image = np.random.default_rng(0).standard_normal((3, 3, 8, 8)).astype(np.float32)
    np.savez("in.npz", image=image)
    done = command("run", "tiny.onnx", "--inputs", "in.npz", "-o", "out.npz", "--json")
    assert done.code == 0 and done.said["outputs"][0]["shape"] == [3, 5]
    (expected,) = onnxruntime.InferenceSession("tiny.onnx").run(None, {"image": image})
    with np.load("out.npz") as out:
        np.testing.assert_allclose(out["output"], expected, rtol=1e-5)
    wrong = {"double": image.astype(np.float64), "flat": image[0], "wide": np.concatenate([image, image], 1)}
    for name, array in wrong.items():
        np.savez(f"{name}.npz", image=array)
        done = command("run", "tiny.onnx", "--inputs", f"{name}.npz", "-o", "none.npz")
        assert done.code == 2 and done.is_one_paragraph and "image" in done.err and "[batch, 3, 8, 8]" in done.err
    done = command("run", "tiny.onnx", "--inputs", "in.npz", "-o", "none.npz", "--tap", "conv/Convv")
    assert done.code == 2 and "conv/Conv" in done.err and not Path("none.npz").exists()


def test_run_a_file_with_operators_of_torch(folder: Path, command: Command) -> None:
    onnxport.export(
        lambda x: torch.sort(x, stable=True)[0].relu(), torch.randn(4), "aten.onnx", input_names=["x"],
        operator_export_type=onnxport.OperatorExportTypes.ONNX_ATEN,
    )  # fmt: skip
    np.savez("in.npz", x=np.array([3, -1, 2, 0], np.float32))
    done = command("run", "aten.onnx", "--inputs", "in.npz", "-o", "out.npz")
    assert done.code == 0, done.err
    with np.load("out.npz") as out:
        np.testing.assert_array_equal(next(iter(out.values())), [0, 0, 2, 3])


def test_taps_of_a_file_with_external_data(folder: Path, command: Command) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(300, 40), torch.nn.ReLU(), torch.nn.Linear(40, 2))
    onnxport.export(model, torch.randn(2, 300), "m.onnx", external_data=True, input_names=["x"])
    inner = onnx.load("m.onnx").graph.node[1].output[0]
    x = torch.randn(2, 300)
    np.savez("in.npz", x=x.numpy())
    assert command("run", "m.onnx", "--inputs", "in.npz", "-o", "out.npz", "--tap", inner).code == 0
    with np.load("out.npz") as out:
        np.testing.assert_allclose(out[inner], model[:2](x).detach(), rtol=1e-3, atol=1e-5)


def test_weights_that_are_drawn_are_the_same_in_each_command(folder: Path, command: Command) -> None:
    assert command("export", "models.py:Tiny", "-o", "t.onnx", "--input", "image=2x3x8x8").code == 0
    assert command("verify", "t.onnx", "models.py:Tiny").code == 0


def test_verify_tells_that_the_weights_are_others(tiny: Path, command: Command) -> None:
    done = command("verify", "tiny.onnx", "models.py:other")
    assert done.code == 1 and "failed" in done.out and "no weight of the file is the model's" in done.err
    done = command("verify", "tiny.onnx", "models.py:Tiny", "--arg", "act=tanh")
    assert done.code == 1 and "weight" not in done.err


def test_verify_draws_inputs_or_takes_them(tiny: Path, command: Command) -> None:
    done = command("verify", "tiny.onnx", "models.py:build", "--sizes", "batch=5", "--sizes", "batch=1", "--json")
    assert done.code == 0 and [case["sizes"]["batch"] for case in done.said["cases"]][1:] == [5, 1]
    done = command("verify", "tiny.onnx", "models.py:build", "--input", "image=3x3x8x8", "--json")
    assert done.code == 0 and done.said["cases"][0]["sizes"] == {"batch": 3}
    done = command("verify", "tiny.onnx", "models.py:other")
    assert done.code == 1 and "tiny.onnx: failed" in done.out and "output" in done.out
    for sizes, named in (("bacth=3", "bacth"), ("batch=three", "three")):
        done = command("verify", "tiny.onnx", "models.py:build", "--sizes", sizes)
        assert done.code == 2 and not done.out and done.is_one_paragraph and named in done.err
    done = command("verify", "tiny.onnx", "models.py:Broken", "--json")
    assert done.code == 1 and done.said["passed"] is False and done.said["error"]["type"] == "RuntimeError"
