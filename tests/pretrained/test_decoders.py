"""Decoders of transformers folders: what is in the file, and what is refused."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import onnx
import onnxruntime as ort
import pytest
import torch

import onnxport
from onnxport.pretrained.decoder import Decoder
from onnxport.pretrained.genai import genai_config

CONFIG = {
    "vocab_size": 96, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 128, "bos_token_id": 1, "eos_token_id": 95,
}  # fmt: skip


@pytest.fixture
def transformers(monkeypatch: pytest.MonkeyPatch) -> Any:
    """transformers without torchvision, whose compiled operators may not fit this torch."""
    if "transformers" not in sys.modules:
        monkeypatch.setitem(sys.modules, "torchvision", None)
    return pytest.importorskip("transformers")


def saved(transformers: Any, folder: Path, family: str = "Llama", dtype: Any = torch.float32, **config: Any) -> Any:
    """A random model, and its folder."""
    cls = getattr(transformers, f"{family}ForCausalLM")
    torch.manual_seed(0)
    model = cls(cls.config_class(**CONFIG | config)).eval().to(dtype)
    model.save_pretrained(folder)
    return model


def steps(path: Path, ids: torch.Tensor, lengths: list[int]) -> torch.Tensor:
    """The logits of all tokens, given in groups of these lengths."""
    session = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    inputs, outputs = session.get_inputs(), [value.name for value in session.get_outputs()]
    empty = {i.name: torch.zeros(len(ids), i.shape[1], 0, i.shape[3]) for i in inputs if i.name.startswith("past")}
    found, done = [], 0
    for length in lengths:
        positions = torch.arange(done, done + length).expand(len(ids), -1)
        feeds = {
            "input_ids": ids[:, done : done + length],
            "attention_mask": torch.ones(len(ids), done + length, dtype=torch.int64),
            "position_ids": positions,
            **empty,
        }
        results = session.run(None, {name: tensor.contiguous().numpy() for name, tensor in feeds.items()})
        named = dict(zip(outputs, map(torch.from_numpy, results), strict=True))
        empty = {name: named[name.replace("past_key_values", "present")] for name in empty}
        found.append(named["logits"])
        done += length
    return torch.cat(found, 1)


@pytest.mark.parametrize("lengths", [[7], [1] * 7, [3, 1, 3], [2, 5]])
@pytest.mark.parametrize(
    ("family", "config"),
    [("Llama", {}), ("Mistral", {"sliding_window": 3}), ("Qwen2", {"tie_word_embeddings": True}), ("StableLm", {})],
)
def test_tokens_in_groups_of_any_length(
    family: str, config: dict[str, Any], lengths: list[int], transformers: Any, tmp_path: Path
) -> None:
    """A window counts the tokens of the cache as well."""
    model = saved(transformers, tmp_path, family, **config)
    assert onnxport.export_pretrained(tmp_path, tmp_path / "model.onnx").verification.passed
    ids = torch.randint(0, 96, (2, 7))
    with torch.no_grad():
        expected = model(ids).logits
    torch.testing.assert_close(steps(tmp_path / "model.onnx", ids, lengths), expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_stays_in_the_file(dtype: torch.dtype, transformers: Any, tmp_path: Path) -> None:
    saved(transformers, tmp_path, dtype=dtype)
    assert onnxport.export_pretrained(tmp_path, tmp_path / "model.onnx").verification.passed
    graph = onnx.load(tmp_path / "model.onnx", load_external_data=False).graph
    assert sum(len(tensor.raw_data) for tensor in graph.initializer) < 4096
    assert sum(bool(tensor.external_data) for tensor in graph.initializer) == 16


def test_what_a_folder_lacks_is_named(transformers: Any, tmp_path: Path) -> None:
    with pytest.raises(onnxport.ExportError, match="no folder"):
        onnxport.export_pretrained(tmp_path / "missing", tmp_path / "model.onnx")
    model = saved(transformers, tmp_path)
    safetensors = pytest.importorskip("safetensors.torch")
    state = {name: tensor for name, tensor in model.state_dict().items() if "layers.1.mlp.up" not in name}
    safetensors.save_file(state, tmp_path / "model.safetensors", {"format": "pt"})
    with pytest.raises(onnxport.ExportError, match=r"layers\.1\.mlp\.up_proj\.weight"):
        onnxport.export_pretrained(tmp_path, tmp_path / "model.onnx")
    assert not (tmp_path / "model.onnx").exists()


def test_models_without_such_a_cache_are_refused(transformers: Any, tmp_path: Path) -> None:
    config = transformers.MambaConfig(vocab_size=96, hidden_size=32, num_hidden_layers=2, state_size=4)
    transformers.MambaForCausalLM(config).save_pretrained(tmp_path)
    with pytest.raises(onnxport.ExportError, match="keeps no keys and values"):
        onnxport.export_pretrained(tmp_path, tmp_path / "model.onnx")
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "vit"}))
    with pytest.raises(onnxport.ExportError, match="cannot load a decoder"):
        onnxport.export_pretrained(tmp_path, tmp_path / "model.onnx")


def test_a_stream_cannot_refer_to_weights(transformers: Any, tmp_path: Path) -> None:
    with pytest.raises(onnxport.OptionError, match="path"):
        onnxport.export_pretrained(tmp_path, None)  # type: ignore[arg-type]


def test_a_text_is_padded_with_its_end(transformers: Any) -> None:
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**CONFIG | {"eos_token_id": [7, 95]}))
    said = genai_config("m.onnx", model.config, Decoder.of(model.eval()))["model"]
    assert said["pad_token_id"] == 7 and said["eos_token_id"] == [7, 95]
    assert said["decoder"]["head_size"] == 16 and said["decoder"]["inputs"]["position_ids"] == "position_ids"
