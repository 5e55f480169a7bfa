"""Arguments of torch.onnx.export without effect here: accepted at their defaults, else an error."""

from __future__ import annotations

import os
from typing import Any

from onnxport.errors import OptionError, OptionTypeError

# The alternatives to these arguments.
INSTEAD = {
    "profile": "program.report.phases has the seconds of each phase",
    "dump_exported_program": "no torch.export program is made; verbose=True prints the graph",
    "fallback": (
        "there is one way of exporting, and an error if it fails; operator_export_type=ONNX_ATEN_FALLBACK keeps "
        "operators that cannot be translated"
    ),
}


def check_torch_options(
    *,
    dynamo: bool | None,
    profile: bool,
    dump_exported_program: bool,
    fallback: bool,
    artifacts_dir: Any,
    custom_translation_table: Any,
    autograd_inlining: bool,
) -> None:
    """Raise an error for a request that would not be met.

    ``dynamo`` selects one of torch's two exporters, and ``artifacts_dir`` is the folder for its reports: both are
    accepted.
    """
    asked = {"profile": profile, "dump_exported_program": dump_exported_program, "fallback": fallback}
    switches = {**asked, "autograd_inlining": autograd_inlining, "dynamo": bool(dynamo) if dynamo is None else dynamo}
    for name, value in switches.items():
        if not isinstance(value, bool):
            raise OptionTypeError(f"{name} must be True or False, not {value!r}")
    if not isinstance(artifacts_dir, (str, os.PathLike)):
        raise OptionTypeError(f"artifacts_dir must be a path, not {artifacts_dir!r}")
    for name, value in asked.items():
        if value:
            raise OptionError(f"{name}=True: {INSTEAD[name]}")
    if custom_translation_table:
        raise OptionError(
            "custom_translation_table: translations are registered with @onnxport.converter or "
            "onnxport.register_custom_op_symbolic; see help(onnxport.converter)"
        )
    if not autograd_inlining:
        raise OptionError(
            "autograd_inlining=False: operator_export_type=ONNX_FALLTHROUGH keeps autograd Functions as nodes; one "
            "with a symbolic function always becomes the nodes that it adds"
        )
