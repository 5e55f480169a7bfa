"""The public call: from a folder of transformers to a file that generates."""

from __future__ import annotations

import os
from pathlib import Path

from onnxport.api import export
from onnxport.errors import OptionError
from onnxport.pretrained.decoder import CHECKED, Decoder
from onnxport.pretrained.folder import load_decoder
from onnxport.pretrained.genai import write_config
from onnxport.program.program import Program
from onnxport.report.tracebacks import public
from onnxport.verification.runners import Verify


@public
def export_pretrained(
    folder: str | os.PathLike[str],
    f: str | os.PathLike[str],
    *,
    opset_version: int | None = None,
    genai: bool = False,
    external_data: bool | None = None,
    verify: Verify = True,
) -> Program:
    """Export the decoder of a transformers folder: one file for the prompt and for each token after it.

    It takes ``input_ids``, ``attention_mask``, ``position_ids`` where the model does, and ``past_key_values.N.key`` and
    ``.value``, which are empty at first. It gives ``logits`` and ``present.N.key`` and ``.value``. The weights stay in
    the folder's safetensors files: the file belongs into that folder or above it. The extra ``hf`` has what this needs.

    Args:
        folder: A folder with ``config.json`` and ``model.safetensors``, or several such files with their index. Code
            that comes with it is not run.
        f: The path of the model's file.
        opset_version: As `export` takes it. From 23 on, attention is one operator.
        genai: Write ``genai_config.json`` beside the file, for onnxruntime-genai.
        external_data: True: a copy of the weights beside the file, which may be in any folder then.
        verify: As `export` takes it.
    """
    if not isinstance(f, str | os.PathLike):
        raise OptionError(f"f must be a path, not {f!r}: the weights are not in the model's file")
    place = Path(folder)
    model = load_decoder(place)
    decoder = Decoder.of(model)
    program = export(
        decoder.method,
        (decoder.example,),
        f,
        input_names=decoder.input_names,
        output_names=decoder.output_names,
        dynamic_axes=decoder.axes,
        opset_version=opset_version,
        weights=place,
        external_data=external_data,
        verify=verify,
        check_sizes=CHECKED,
    )
    if genai:
        write_config(Path(f), model.config, decoder)
    return program
