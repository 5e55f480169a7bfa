"""What importing onnxport costs: torch comes with the first name that needs it."""

from __future__ import annotations

import subprocess
import sys


def run(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120).stdout


def test_importing_the_package_imports_neither_torch_nor_onnx() -> None:
    code = "import sys, onnxport; onnxport.ExportError, onnxport.__version__, dir(onnxport)"
    assert run(f"{code}; print({{'torch', 'onnx', 'numpy'}} & set(sys.modules))") == "set()\n"


def test_names_that_need_torch_come_when_they_are_asked_for() -> None:
    code = "import onnxport; from onnxport import verify; print(callable(verify), onnxport.verify is verify)"
    assert run(f"{code}; print(hasattr(onnxport, 'nothing'), onnxport.symbolic_opset9.__name__)") == (
        "True True\nFalse onnxport.symbolic_opset9\n"
    )


def test_a_module_of_the_package_may_be_imported_first() -> None:
    code = "from onnxport import pipeline, backend; import onnxport; print(onnxport.export.__name__, backend.__name__)"
    assert run(code) == "export onnxport.backend\n"
