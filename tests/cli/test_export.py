"""`onnxport export`: sources, inputs, weights, and what is said of each way to fail."""

from __future__ import annotations

import inspect
import pathlib
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

import onnxport
from onnxport.cli.commands.batch import export_options
from tests.cli.conftest import Command
from tests.models.packages import missing, package

IMAGE = ("--input", "image=2x3x8x8")


def test_results_go_to_stdout_and_all_else_to_stderr(folder: Path, command: Command) -> None:
    done = command(
        "export", "models.py:build", "-o", "m.onnx", *IMAGE, "--dynamic", "image=0:batch,2:height", "--opset", 15
    )
    assert done.code == 0 and "building" not in done.out and "building" in done.err
    assert "m.onnx: passed" in done.out and "batch" in done.out and "image[2]" in done.out
    proto = onnx.load("m.onnx")
    dims = [dim.dim_param or dim.dim_value for dim in proto.graph.input[0].type.tensor_type.shape.dim]
    assert dims == ["batch", 3, "height", 8] and proto.opset_import[0].version == 15


def test_sizes_to_check_at(folder: Path, command: Command) -> None:
    axes = ("--dynamic", "image=0:batch,2:height")
    points = ("--check-sizes", "batch=11", "--check-sizes", "batch=3,height=13")
    done = command("export", "models.py:build", "-o", "m.onnx", *IMAGE, *axes, *points, "--json")
    assert done.code == 0
    verified = {axis["name"]: axis["verified"] for axis in done.said["axes"]}
    assert {11, 3} <= {*verified["batch"]} and 13 in verified["height"]


@pytest.mark.parametrize("source", ["models.py:build", "models:Tiny", "models.py:made", "models:made"])
def test_models_classes_and_factories(folder: Path, command: Command, source: str) -> None:
    done = command("export", source, "-o", "m.onnx", *IMAGE, "--json")
    assert done.code == 0 and done.said["verdict"] == "passed" and done.said["operators"]["Conv"] == 1


def test_arguments_are_literals_or_text(folder: Path, command: Command) -> None:
    done = command(
        "export", "models.py:Tiny", "-o", "m.onnx", *IMAGE, "--arg", "width=4", "--arg", "act=tanh", "--json"
    )
    assert done.said["operators"]["Tanh"] == 1
    assert next(i for i in onnx.load("m.onnx").graph.initializer if len(i.dims) == 4).dims[0] == 4


def test_inputs_of_any_dtype_and_range(folder: Path, command: Command) -> None:
    done = command("export", "models.py:Words", "-o", "m.onnx", "--input", "tokens=2x7:int64:10..50", "--json")
    assert done.code == 0 and done.said["verdict"] == "passed"
    done = command("export", "models.py:Words", "-o", "m.onnx", "--input", "tokens=2x7:int64:10..51", "--json")
    assert done.code in (0, 1), "50 is out of range, and may be drawn"
    np.savez("in.npz", tokens=np.full((3, 2), 49))
    done = command("export", "models.py:Words", "-o", "n.onnx", "--inputs", "in.npz", "--output-names", "words")
    assert done.code == 0 and onnx.load("n.onnx").graph.output[0].name == "words"


def test_files_of_torch(folder: Path, command: Command) -> None:
    model, x = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU()), torch.randn(2, 4)
    torch.jit.trace(model, x).save("traced.pt")
    torch.export.save(torch.export.export(model, (x,)), "program.pt2")
    torch.save(model.state_dict(), "weights.pt")
    assert command("export", "traced.pt", "-o", "a.onnx", "--input", "input=2x4").code == 0
    assert command("export", "program.pt2", "-o", "b.onnx").code == 0
    done = command("export", "weights.pt", "-o", "c.onnx", "--input", "input=2x4")
    assert done.code == 2 and done.is_one_paragraph and "--weights weights.pt" in done.err
    np.testing.assert_allclose(
        *(onnxruntime.InferenceSession(f"{name}.onnx").run(None, {"input": x.numpy()})[0] for name in "ab"), rtol=1e-5
    )


def test_weights_of_safetensors(folder: Path, command: Command) -> None:
    safetensors = pytest.importorskip("safetensors.torch", reason="the extra hf is not installed")
    sys.path.insert(0, str(folder))
    import models  # type: ignore[import-not-found]  # noqa: PLC0415

    safetensors.save_file(models.Tiny(width=4).state_dict(), "four.safetensors")
    call = ("export", "models.py:Tiny", "-o", "m.onnx", *IMAGE, "--weights", "four.safetensors")
    assert command(*call, "--arg", "width=4").code == 0
    done = command(*call)
    assert done.code == 2 and done.is_one_paragraph and "conv.weight" in done.err and "four.safetensors" in done.err


def library(name: str) -> Any:
    if missing((name,)):
        pytest.skip(f"{name} is not installed")
    if not missing(("torchvision",)):
        package("torchvision")
    return package(name)


@pytest.mark.parametrize("kind", ["Bert", "ViT"])
def test_a_transformers_folder(folder: Path, command: Command, kind: str) -> None:
    transformers = library("transformers")
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    if kind == "Bert":
        config, first, takes = transformers.BertConfig(vocab_size=30, **sizes), "input_ids", ["attention_mask"]
    else:
        config, first, takes = transformers.ViTConfig(image_size=32, patch_size=16, **sizes), "pixel_values", []
    getattr(transformers, f"{kind}Model")(config).save_pretrained("saved")
    axes = [word for name in (first, *takes) for word in ("--dynamic", f"{name}=0:batch")]
    done = command("export", "saved", "-o", "m.onnx", *axes, "--json", "--quiet")
    assert done.code == 0 and done.said["verdict"] == "passed" and not done.err, done.err
    assert [value.name for value in onnx.load("m.onnx").graph.input] == [first, *takes]


def test_a_model_of_timm(folder: Path, command: Command) -> None:
    library("timm")
    done = command("export", "timm:test_resnet", "-o", "m.onnx", "--arg", "num_classes=7", "--json")
    assert done.code == 0 and done.said["verdict"] == "passed", done.err
    assert onnx.load("m.onnx").graph.output[0].type.tensor_type.shape.dim[1].dim_value == 7
    done = command("export", "timm:test_resnett", "-o", "m.onnx")
    assert done.code == 2 and done.is_one_paragraph and "test_resnet" in done.err


WRONG = {
    "a package that is not there": (["nowhere.models:build", *IMAGE], "nowhere"),
    "no source at all": (["nothing", *IMAGE], "nothing"),
    "a folder without a model": ([".", *IMAGE], "config.json"),
    "a text file": (["models.txt", *IMAGE], "models.txt"),
    "near names": (["models.py:biuld", *IMAGE], "build"),
    "no model": (["models.py:number", *IMAGE], "int"),
    "a factory that raises": (["models.py:fails", *IMAGE], "the disk is gone"),
    "a source that leaves": (["models.py:leaves", *IMAGE], "SystemExit"),
    "an argument that is unknown": (["models.py:Tiny", *IMAGE, "--arg", "wdith=4"], "wdith"),
    "an argument of a model": (["models.py:made", *IMAGE, "--arg", "width=4"], "width"),
    "an input that is unknown": (["models.py:build", "--input", "picture=2x3x8x8"], "image"),
    "an input that is missing": (["models.py:build"], "--input image"),
    "an input without a name": (["models.py:build", "--input", "2x3"], "NAME="),
    "an input given twice": (["models.py:build", *IMAGE, *IMAGE], "image"),
    "an empty range": (["models.py:build", "--input", "image=2x3x8x8:float32:3..3"], "3..3"),
    "a range of words": (["models.py:build", "--input", "image=2x3x8x8:float32:a..b"], "a..b"),
    "an axis out of range": (["models.py:build", *IMAGE, "--dynamic", "image=7:batch"], "7"),
    "an axis of nothing": (["models.py:build", *IMAGE, "--dynamic", "picture=0:batch"], "picture"),
    "a size that is none": (["models.py:build", *IMAGE, "--check-sizes", "batch=two"], "--check-sizes batch=two"),
    "an opset that is none": (["models.py:build", *IMAGE, "--opset", "99"], "99"),
    "an option that is none": (["models.py:build", *IMAGE, "--opsett", "9"], "--opsett"),
    "weights that are not there": (["models.py:build", *IMAGE, "--weights", "w.pt"], "w.pt"),
    "weights that are none": (["models.py:build", *IMAGE, "--weights", "models.txt"], "models.txt"),
    "inputs that are not there": (["models.py:build", "--inputs", "in.npz"], "in.npz"),
    "inputs that are none": (["models.py:build", "--inputs", "models.txt"], "models.txt"),
    "a page that has no place": (["models.py:build", *IMAGE, "--report", "no/page.html"], "no"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_with_a_command_is_named(folder: Path, command: Command, case: str) -> None:
    words, named = WRONG[case]
    (folder / "models.txt").write_text("no model")
    done = command("export", *words, "-o", "m.onnx")
    assert done.code == 2 and not done.out and done.is_one_paragraph and named in done.err, done.err
    assert not (folder / "m.onnx").exists()


def test_a_target_that_cannot_be_is_told(folder: Path, command: Command) -> None:
    for target in ("no/such/m.onnx", "."):
        done = command("export", "models.py:build", *IMAGE, "-o", target)
        assert done.code == 2 and done.is_one_paragraph and "-o" in done.err


def test_a_models_own_error_is_a_refusal_with_its_line(folder: Path, command: Command) -> None:
    done = command("export", "models.py:Broken", *IMAGE, "-o", "m.onnx", "--json", "--report", "m.html")
    line = (folder / "models.py").read_text().splitlines().index("        return image.view(7, -1)") + 1
    assert done.code == 1 and done.said["verdict"] == "refused" and done.said["error"]["type"] == "RuntimeError"
    assert done.is_one_paragraph and f"models.py:{line}" in done.err and "image.view(7, -1)" in done.err
    assert (folder / "m.html").exists() and not (folder / "m.onnx").exists()


def test_a_model_that_ends_the_process_is_a_refusal(folder: Path, command: Command) -> None:
    done = command("export", "models.py:Leaves", *IMAGE, "-o", "m.onnx", "--json", "--report", "m.html")
    assert done.code == 1 and done.said["error"]["type"] == "SystemExit" and "in Leaves.forward" in done.err
    assert (folder / "m.html").exists() and not (folder / "m.onnx").exists()


def test_more_is_told_on_request(folder: Path, command: Command) -> None:
    done = command("export", "models.py:Broken", *IMAGE, "-o", "m.onnx", "--traceback")
    assert done.code == 1 and "Traceback" in done.err and "pipeline.py" in done.err
    done = command("export", "models.py:fails", *IMAGE, "-o", "m.onnx", "--traceback")
    assert done.code == 2 and "Traceback" in done.err and 'raise OSError("the disk is gone")' in done.err


def test_a_refusal_without_json_leaves_stdout_empty(folder: Path, command: Command) -> None:
    done = command("export", "models.py:Picky", *IMAGE, "-o", "m.onnx", "--dynamic", "image=0:n")
    assert done.code == 1 and not done.out and "if image.shape[0] > 4" in done.err


def test_a_defect_of_ours_is_told_as_such(folder: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    code = compile("def broken(*a): return 1 // 0", str(pathlib.Path(onnxport.__file__).parent / "made_up.py"), "exec")
    names: dict[str, object] = {}
    exec(code, names)
    monkeypatch.setattr("onnxport.pipeline.capture_model", names["broken"])
    done = command("export", "models.py:build", *IMAGE, "-o", "m.onnx", "--json")
    assert done.code == 3 and not done.out and "Traceback" in done.err and "onnxport doctor" in done.err


def test_an_interruption(folder: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*args: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("onnxport.pipeline.capture_model", interrupted)
    done = command("export", "models.py:build", *IMAGE, "-o", "m.onnx", "--json", "--quiet")
    assert done.code == 130 and not done.out and not (folder / "m.onnx").exists()


def test_a_mismatch_that_only_warns_is_still_a_no(folder: Path, command: Command) -> None:
    @onnxport.converter("aten::relu")
    def wrong(g: object, self: object) -> object:
        return g.op("LeakyRelu", self)  # type: ignore[attr-defined]

    try:
        done = command("export", "models.py:build", *IMAGE, "-o", "m.onnx", "--json")
        assert done.code == 1 and done.said["verdict"] == "failed" and not (folder / "m.onnx").exists()
        assert done.said["mismatch"]["operator"] == "aten::relu" and done.is_one_paragraph
        done = command("export", "models.py:build", *IMAGE, "-o", "m.onnx", "--verify", "warn", "--json")
        assert done.code == 1 and done.said["verdict"] == "failed" and (folder / "m.onnx").exists()
    finally:
        wrong.unregister()
    done = command("export", "models.py:build", *IMAGE, "-o", "m.onnx", "--no-verify", "--json")
    assert done.code == 0 and done.said["verdict"] == "unchecked"


def test_quiet_leaves_warnings_out(folder: Path, command: Command) -> None:
    (folder / "warns.py").write_text("def build():\n    return lambda x: x * float(x.detach().numpy().max())\n")
    call = ("export", "warns.py:build", "-o", "m.onnx", "--input", "x=3", "--no-verify")
    assert "warning: " in command(*call).err
    assert command(*call, "--quiet").err == ""


PLAIN = ("bool", "int", "str", "Literal", "Verify", "OperatorExportTypes", "TrainingMode")


def test_every_keyword_of_export_that_takes_a_plain_value_has_its_option() -> None:
    parameters = inspect.signature(onnxport.export).parameters
    plain = {name for name, parameter in parameters.items() if re.search(rf"\b({'|'.join(PLAIN)})\b", str(parameter))}
    # Told in another form: --input and --inputs, -o, --dynamic, --quiet. Of classes: modules_as_ops. Private.
    elsewhere = {"args", "f", "kwargs", "dynamic_axes", "progress", "modules_as_ops", "_retain_param_name"}
    assert plain - elsewhere <= export_options().keys()


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("--profile",), "program.report.phases"),
        (("--no-autograd-inlining",), "ONNX_FALLTHROUGH"),
        (("--arg", "widht=4"), "did you mean width?"),
        (("--input", "imgae=2x3x8x8"), "did you mean image?"),
    ],
)
def test_what_is_wrong_with_a_model_is_named(
    folder: Path, command: Command, words: tuple[str, ...], named: str
) -> None:
    inputs = () if words[0] == "--input" else IMAGE
    done = command("export", "models.py:Tiny", "-o", "m.onnx", *inputs, *words)
    assert done.code == 2 and done.out == "" and named in done.err
