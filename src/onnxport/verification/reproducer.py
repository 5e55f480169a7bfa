"""A mismatch as files: the model in question, its inputs, and a script that runs both sides."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from onnxport.errors import SaveError
from onnxport.verification.runtime import BITS

DATA = "reproducer.npz"
SCRIPT = "reproducer.py"

_SCRIPT = '''"""{title}"""

import ctypes
import pathlib

import numpy as np
import onnxruntime
import torch

FOLDER = pathlib.Path(__file__).parent
DATA = np.load(FOLDER / "reproducer.npz")
# Element types that numpy lacks, stored as their bits: torch's name, and ONNX's number.
BITS = {bits}
FEEDS = {feeds}
MODELS = {models}


def tensor(key):
    content = torch.from_numpy(DATA[key])
    return content.view(getattr(torch, BITS[key][0])) if key in BITS else content


def feed(key):
    if key in BITS:
        return onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(DATA[key], BITS[key][1])
    return onnxruntime.OrtValue.ortvalue_from_numpy(DATA[key])


def run(model):
    session = onnxruntime.InferenceSession(str(FOLDER / model), providers=["CPUExecutionProvider"])
    results = session.run_with_ort_values(None, {{name: feed(key) for name, key in FEEDS.items()}})
    return [fetch(result) for result in results]


def fetch(value):
    for dtype in ("bfloat16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"):
        if value.data_type() == f"tensor({{dtype.replace('8_', '8')}})":
            content = bytearray(ctypes.string_at(value.data_ptr(), value.tensor_size_in_bytes()))
            return torch.frombuffer(content, dtype=getattr(torch, dtype)).reshape(value.shape())
    return torch.from_numpy(np.array(value.numpy()))


def expected():
    results = {call}
    results = results if isinstance(results, (list, tuple)) else [results]
    return [torch.as_tensor(result) for result in results if result is not None]


for model in MODELS:
    for index, (right, found) in enumerate(zip(expected(), run(model))):
        print(f"{{model}}, result {{index}}: torch {{right.dtype}}{{list(right.shape)}}, "
              f"ONNX {{found.dtype}}{{list(found.shape)}}")
        if right.shape == found.shape:
            distance = (right.double() - found.double()).abs()
            print(f"  largest difference {{distance.max().item() if distance.numel() else 0.0:g}}")
        print(f"  torch: {{right.flatten()[:8].tolist()}}\\n  ONNX:  {{found.flatten()[:8].tolist()}}")
'''


@dataclass(frozen=True)
class Reproducer:
    """What is needed to see a mismatch again.

    ``function`` is torch's name of the operator (``torch.ops.aten.elu.default``) and ``arguments`` what it is called
    with; without it, ``expected`` holds what torch gave.
    """

    title: str
    models: Mapping[str, bytes]
    feeds: Mapping[str, torch.Tensor]
    expected: Sequence[torch.Tensor] = ()
    function: str | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict)

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Write the models, the data and the script into a folder, which is made if need be; returns the script."""
        target = Path(folder)
        arrays = _Arrays()
        feeds = {name: arrays.key(tensor) for name, tensor in self.feeds.items()}
        script = _SCRIPT.format(
            title=self.title,
            feeds=repr(feeds),
            models=repr(list(self.models)),
            call=self._call(arrays),
            bits=repr(arrays.bits),
        )
        try:
            target.mkdir(parents=True, exist_ok=True)
            for name, content in self.models.items():
                (target / name).write_bytes(content)
            np.savez(target / DATA, **arrays.arrays)  # type: ignore[arg-type]
            (target / SCRIPT).write_text(script, encoding="utf-8")
        except OSError as error:
            raise SaveError(f"could not write the reproducer to {target}: {error.strerror or error}") from error
        return target / SCRIPT

    def _call(self, arrays: _Arrays) -> str:
        if self.function is None:
            return f"[{', '.join(arrays.text(tensor) for tensor in self.expected)}]"
        arguments = [f"{name}={arrays.text(argument)}" for name, argument in self.arguments.items()]
        return f"{self.function}({', '.join(arguments)})"


class _Arrays:
    """The tensors of a reproducer under the keys that its script reads them by."""

    def __init__(self) -> None:
        self.arrays: dict[str, np.ndarray[Any, Any]] = {}
        self.bits: dict[str, tuple[str, int]] = {}

    def key(self, tensor: torch.Tensor) -> str:
        key = f"tensor_{len(self.arrays)}"
        tensor = tensor.detach().cpu().contiguous()
        if tensor.dtype in BITS:
            carrier, number, _ = BITS[tensor.dtype]
            self.bits[key] = (str(tensor.dtype).removeprefix("torch."), number)
            tensor = tensor.view(carrier)
        self.arrays[key] = tensor.numpy()
        return key

    def text(self, argument: Any) -> str:
        """An argument as Python source."""
        if isinstance(argument, torch.Tensor):
            return f'tensor("{self.key(argument)}")'
        if isinstance(argument, (list, tuple)):
            return f"[{', '.join(self.text(element) for element in argument)}]"
        if isinstance(argument, float):
            return f'float("{argument!r}")'
        if isinstance(argument, torch.device):
            return f'torch.device("{argument}")'
        return repr(argument)
