"""Export one model with its natural dynamic axes and say what came of it."""

from __future__ import annotations

import copy
import time
import warnings
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map

import onnxport
from tests.models.model import Call, Model

SIZES = 3
# Of the largest number of a result.
TOLERANCE = 1e-3


@dataclass(frozen=True)
class Verdict:
    """``kind`` is "right" or what went wrong; ``detail`` is the error's own words, or a note."""

    name: str
    family: str
    kind: str
    detail: str = ""
    seconds: float = 0.0
    nodes: int = 0
    error: float = 0.0

    @property
    def passed(self) -> bool:
        return self.kind == "right"


def void(call: Call) -> str:
    """Why an agreement on the results would say nothing: they are not numbers, or there are none."""
    with torch.no_grad():
        result = copy.deepcopy(call.model)(*copy.deepcopy(call.args), **copy.deepcopy(dict(call.kwargs)))
    leaves = [leaf for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor)]
    floats = [leaf for leaf in leaves if leaf.is_floating_point() and leaf.numel()]
    if not all(bool(leaf.isfinite().any()) for leaf in floats):
        return "an output holds no finite number"
    return "" if leaves else "there are no tensors in the result"


def judge(model: Model) -> Verdict:
    """Right means: verified against torch in ONNX Runtime, at three sizes of the dynamic axes or more."""
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        call = model.build()
        why = void(call)
        if why:
            return Verdict(model.name, model.family, "void", why)
        torch.manual_seed(0)
        start = time.perf_counter()
        try:
            program = export(call)
        except onnxport.VerificationError as error:
            return Verdict(model.name, model.family, "wrong", str(error), time.perf_counter() - start)
        except onnxport.ExportError as error:
            return Verdict(model.name, model.family, "refused", str(error), time.perf_counter() - start)
    seconds = time.perf_counter() - start
    checked = program.verification
    kind, detail = "right", "; ".join(program.report.warnings)
    if not checked.passed:
        kind, detail = "unchecked", str(checked)
    elif not call.random and (why := difference(call, program)):
        kind, detail = "wrong", why
    elif (call.axes or call.shapes) and len({tuple(case.sizes.items()) for case in checked.cases}) < SIZES:
        kind, detail = "unchecked", f"verified at fewer than {SIZES} sizes: {checked}"
    return Verdict(model.name, model.family, kind, detail, seconds, program.report.nodes, checked.max_abs_error)


def difference(call: Call, program: onnxport.Program) -> str:
    """How the results for the example differ. The export's own check leaves out what looks random.

    Where a model amplifies rounding, torch in single precision is as far from the truth as the file: a result that
    differs from it is right if it is that of the model in double precision.
    """
    results = tree_leaves(program(*call.args, **call.kwargs))
    found = differing(results, call, torch.float32)
    try:
        return found and differing(results, call, torch.float64)
    except (RuntimeError, TypeError):  # a model of single precision only
        return found


def differing(results: list[Any], call: Call, precision: torch.dtype) -> str:
    def precise(leaf: Any) -> Any:
        return leaf.to(precision) if isinstance(leaf, torch.Tensor) and leaf.dtype == torch.float32 else leaf

    model = copy.deepcopy(call.model)
    if precision != torch.float32 and isinstance(model, torch.nn.Module):
        model.to(precision)
    args, kwargs = tree_map(precise, copy.deepcopy((call.args, dict(call.kwargs))))
    torch.manual_seed(0)
    with torch.no_grad():
        expected = tree_leaves(model(*args, **kwargs))
    for place, (got, wanted) in enumerate(zip(results, expected, strict=True)):
        if isinstance(wanted, torch.Tensor) and wanted.is_floating_point() and wanted.numel():
            allowed = TOLERANCE * max(1.0, float(wanted.nan_to_num(posinf=0, neginf=0).abs().max()))
            if not torch.allclose(precise(got), wanted, rtol=0, atol=allowed, equal_nan=True):
                return f"result {place} differs by {float((got - wanted).abs().max()):.1e} from torch's"
    return ""


def export(call: Call) -> onnxport.Program:
    return onnxport.export(
        call.model, call.args, None, kwargs=call.kwargs, dynamic_axes=call.axes, dynamic_shapes=call.shapes,
        input_names=call.input_names, output_names=call.output_names, opset_version=call.opset,
    )  # fmt: skip
