"""What torch says of its own deprecated parts does not reach who exports a model."""

from __future__ import annotations

import subprocess
import sys
import threading
import warnings
from pathlib import Path

import pytest
import torch

import onnxport

SCRIPT = """
import torch

def clamp(x):
    return x.clamp(0, 1)

try:
    clamp = torch.jit.script(clamp)
except (DeprecationWarning, FutureWarning) as warning:
    assert "torch.jit.script" in str(warning)
else:
    raise SystemExit("torch.jit.script is not deprecated any more: this test shows nothing")

import onnxport

@torch.jit.script_if_tracing
def halve(x):
    return x / 2

onnxport.export(lambda x: halve(x) + 1, torch.randn(3))
"""


def test_neither_import_nor_export_tells_that_torch_script_is_deprecated(tmp_path: Path) -> None:
    """With these warnings as errors. In a process of its own: each is given once for a line of torch's."""
    file = tmp_path / "program.py"
    file.write_text(SCRIPT, encoding="utf-8")
    options = ["-W", "error::DeprecationWarning", "-W", "error::FutureWarning"]
    done = subprocess.run([sys.executable, *options, str(file)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "deprecated" not in done.stderr


def test_other_warnings_of_a_model_are_passed_on() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        warnings.warn("the model's own", FutureWarning, stacklevel=1)
        return x + 1

    with pytest.warns(FutureWarning, match="the model's own"):
        onnxport.export(model, torch.randn(3))


def test_the_filters_are_as_they_were_after_exports_in_two_threads() -> None:
    before = list(warnings.filters)
    threads = [threading.Thread(target=onnxport.export, args=(torch.nn.ReLU(), torch.randn(3))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert list(warnings.filters) == before
