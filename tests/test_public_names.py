"""Modules that are imported from the package itself, wherever their code lives."""

from __future__ import annotations

import importlib
import subprocess
import sys
from operator import attrgetter

import pytest

import onnxport
from onnxport.public_names import PUBLIC_MODULES

OPSETS = [f"symbolic_opset{opset}" for opset in range(7, 21)]
# Each public module with a name that it has.
MODULES = {
    "backend": "prepare",
    "errors": "ExportError",
    "operators": "shape_as_tensor",
    "quant": "init",
    "symbolic_helper": "parse_args",
    "symbolic_registry": "register_op",
    "symbolic.jit_utils": "add_op_with_blocks",
    "utils": "is_in_onnx_export",
    **dict.fromkeys(OPSETS, "softmax"),
}


def test_the_table_has_no_other_modules() -> None:
    assert PUBLIC_MODULES.keys() <= MODULES.keys()


@pytest.mark.parametrize(("module", "name"), MODULES.items())
def test_each_way_of_importing(module: str, name: str) -> None:
    parent, _, child = f"onnxport.{module}".rpartition(".")
    for statement, expression in (
        (f"import onnxport.{module}", f"onnxport.{module}.{name}"),
        (f"import onnxport.{module} as found", f"found.{name}"),
        (f"from {parent} import {child}", f"{child}.{name}"),
        (f"from onnxport.{module} import {name}", name),
        ("import onnxport", f"onnxport.{module}.{name}"),
    ):
        names: dict[str, object] = {}
        exec(statement, names)
        assert callable(eval(expression, names)), statement


@pytest.mark.parametrize("module", MODULES)
def test_a_module_is_one_object_with_its_public_name(module: str) -> None:
    found = importlib.import_module(f"onnxport.{module}")
    assert found is attrgetter(module)(onnxport) is sys.modules[f"onnxport.{module}"]
    assert found.__name__ == f"onnxport.{module}" and found.__doc__


def test_other_names_stay_unknown() -> None:
    with pytest.raises(ModuleNotFoundError, match="symbolic_opset21"):
        importlib.import_module("onnxport.symbolic_opset21")
    with pytest.raises(AttributeError, match="symbolic_opset6"):
        _ = onnxport.symbolic_opset6  # type: ignore[attr-defined]


def test_python_suggests_names_for_a_misspelt_one() -> None:
    code = "import onnxport; onnxport.exprot"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False).stderr
    assert "Did you mean: 'export'?" in said


def test_verify_is_the_public_call_whatever_is_imported() -> None:
    importlib.import_module("onnxport.verification")
    assert callable(onnxport.verify) and onnxport.verify.__module__ == "onnxport.api"


def test_the_table_is_read_without_torch() -> None:
    code = (
        "import importlib.util, sys; "
        f"spec = importlib.util.spec_from_file_location('table', {onnxport.public_names.__file__!r}); "
        "table = importlib.util.module_from_spec(spec); spec.loader.exec_module(table); table.register(); "
        "assert table.PublicModules.find_spec('onnxport.symbolic_opset9') and 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
