"""Writes src/onnxport/lower/kernels.py: which element types ONNX Runtime's CPU kernels take, per operator and opset.

The exporter consults the table, not the installed runtime, so that the same model gives the same file everywhere.

    python tools/kernel_table.py
"""

from __future__ import annotations

import pathlib
from collections import defaultdict

import onnxruntime
from onnxruntime.capi import onnxruntime_pybind11_state as state

TARGET = pathlib.Path(__file__).parent.parent / "src/onnxport/lower/kernels.py"
HEADER = '''"""Element types that ONNX Runtime {version}'s CPU kernels take. Written by tools/kernel_table.py.

Per operator: rows of (first opset, last opset, element types of each type variable).
"""

# fmt: off
# ruff: noqa: E501
KERNELS: dict[str, list[tuple[int, int, dict[str, str]]]] = {{
'''


def main() -> None:
    rows: dict[str, dict[tuple[int, int], dict[str, set[str]]]] = defaultdict(
        lambda: defaultdict(lambda: defaultdict(set))
    )
    for kernel in state.get_all_opkernel_def():
        if kernel.provider != "CPUExecutionProvider" or kernel.domain != "":
            continue
        for variable, types in kernel.type_constraints.items():
            rows[kernel.op_name][kernel.version_range][variable] |= {
                name[len("tensor(") : -1] for name in types if name.startswith("tensor(")
            }
    lines = [HEADER.format(version=onnxruntime.__version__)]
    for op in sorted(rows):
        versions = ", ".join(
            f"({first}, {min(last, 999)}, {_variables(variables)})"
            for (first, last), variables in sorted(rows[op].items())
        )
        lines.append(f'    "{op}": [{versions}],\n')
    lines.append("}\n")
    TARGET.write_text("".join(lines))


def _variables(variables: dict[str, set[str]]) -> str:
    return "{" + ", ".join(f'"{name}": "{" ".join(sorted(types))}"' for name, types in sorted(variables.items())) + "}"


if __name__ == "__main__":
    main()
