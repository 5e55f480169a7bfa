"""A transformers folder, loaded: what it lacks is said before anything else is done."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from onnxport.errors import ExportError, OptionError
from onnxport.pretrained.attention import IMPLEMENTATION, register
from onnxport.save.checkpoint import open_checkpoint

_NAMED_AT_ONCE = 20


def load_decoder(folder: Path) -> Any:
    """The causal language model of a folder, with its weights in the mapped memory of the files."""
    if not folder.is_dir():
        raise OptionError(f"{folder} is no folder; give the one that save_pretrained has written")
    if not (folder / "config.json").is_file():
        raise OptionError(f"{folder} has no config.json, so it is no folder of a transformers model")
    open_checkpoint(folder)
    transformers = _transformers()
    with _quietly(transformers):
        try:
            model, info = transformers.AutoModelForCausalLM.from_pretrained(
                folder, local_files_only=True, trust_remote_code=False, output_loading_info=True
            )
        except (ValueError, OSError, KeyError, RuntimeError, ImportError) as error:
            raise ExportError(f"transformers cannot load a decoder from {folder}: {error}") from error
    missing = sorted(info["missing_keys"])
    if missing:
        more = f" and {len(missing) - _NAMED_AT_ONCE} more" if len(missing) > _NAMED_AT_ONCE else ""
        raise OptionError(f"the files of {folder} lack weights: {', '.join(missing[:_NAMED_AT_ONCE])}{more}")
    if model.config._attn_implementation == "sdpa":
        register(transformers)
        model.set_attn_implementation(IMPLEMENTATION)
    return model.eval()


def _transformers() -> Any:
    for name in ("transformers", "safetensors"):
        if importlib.util.find_spec(name) is None:
            raise OptionError(f"export_pretrained needs {name}, which is not installed: pip install 'onnxport[hf]'")
    return importlib.import_module("transformers")


@contextlib.contextmanager
def _quietly(transformers: Any) -> Iterator[None]:
    """Without the bars of loading."""
    logging = transformers.utils.logging
    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()
