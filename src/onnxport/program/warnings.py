"""What the user is told of an export: warnings, the report's notes and sizes, and the verdict on the file."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Collection, Sequence

from onnxport.capture.axes.axis import Axis, Sizes, shown
from onnxport.capture.captured import Capture
from onnxport.errors import DynamicAxisWarning, TraceWarning, VerificationError, VerificationWarning
from onnxport.options.options import Options
from onnxport.program.axis_report import axis_sizes, repaired_numbers
from onnxport.program.program import Report
from onnxport.verify import Mismatch, Verification

OWN_FOLDER = os.path.dirname(os.path.dirname(__file__)) + os.sep


def tell_frozen(captured: Capture, report: Report) -> None:
    report.notes += dict.fromkeys(captured.notes)
    report.notes += [f"{label} is static: the model does not take other sizes of it" for label in captured.fixed]
    for value in captured.frozen:
        if value.harmless or value.source is None:
            report.notes.append(f"{value.source}: {value.value!r} was read while the model was recorded")
            continue
        report.warnings.append(value.message)
        warnings.warn_explicit(value.message, TraceWarning, value.source.file, value.source.line)
    for message in captured.axis_warnings:
        report.warnings.append(message)
        warn(message, DynamicAxisWarning)
    for message in captured.warnings:
        report.warnings.append(message)
        warn(message, TraceWarning)


def tell_varying(captured: Capture, varying: Collection[int], report: Report) -> None:
    """Warn of Python values in the result that are constants of the program, and that other sizes or data change."""
    for place in sorted(varying):
        name = captured.structure.names[place] or "the result"
        message = (
            f"{name} is a Python value that Python decided ({captured.constants[place]!r} on the example), and another "
            "one at other sizes or data: it is no output of the file. Return it as a tensor, as in "
            "torch.tensor(x.shape[0]) > 3."
        )
        report.warnings.append(message)
        warn(message, TraceWarning)


def tell_missing_domains(message: str | None, report: Report) -> None:
    if message is not None:
        report.warnings.append(message)
        warn(message, VerificationWarning)


def tell_unlike_plain(difference: str | None, report: Report) -> None:
    """Warn of a model that computes something else while it is exported: the file is that."""
    if difference is not None:
        message = (
            f"the model asks is_in_onnx_export(), and on the example {difference}. The file computes what the model "
            "computes while it is exported; if that is not what was meant, mend the model's branch for exporters."
        )
        report.warnings.append(message)
        warn(message, TraceWarning)


def warn(message: str, category: type[Warning]) -> None:
    """Warn at the line that asked for the export."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(OWN_FOLDER):
        frame = frame.f_back
    told = frame.f_globals.setdefault("__warningregistry__", {})
    name = frame.f_globals.get("__name__")
    warnings.warn_explicit(message, category, frame.f_code.co_filename, frame.f_lineno, name, told)


def tell_sizes(captured: Capture, input_names: Sequence[str], verification: Verification, report: Report) -> None:
    report.sizes_verified = [dict(case.sizes) for case in verification.cases if case.passed]
    axes = [(axis.label, axis.places) for axis in captured.axes]
    report.axes = axis_sizes(axes, input_names, report.sizes_traced, report.sizes_verified)
    report.repaired = repaired_numbers(captured.graph)


def tell_unchecked(
    axes: Sequence[Axis],
    verification: Verification,
    refused: Sequence[tuple[Sizes, str]],
    report: Report,
    *,
    only_larger: bool,
) -> None:
    """Warn of axes that were checked at no size but the example's, unless something is wrong anyway.

    ``only_larger`` tells that smaller sizes were left out since there is a loop.
    """
    for axis in axes if verification.passed else ():
        if all(case.sizes[axis.label] == axis.size for case in verification.cases):
            message = (
                f"axis {axis.label!r} was checked at no size but the example's, {axis.size}: "
                f"{_why_unchecked(axis, refused, only_larger)}. Check the file at other sizes with onnxport.verify."
            )
            report.warnings.append(message)
            warn(message, VerificationWarning)


def _why_unchecked(axis: Axis, refused: Sequence[tuple[Sizes, str]], only_larger: bool) -> str:
    other = {reason: point for point, reason in reversed(refused) if point[axis.label] != axis.size}
    reasons = [f"the model does not take {shown(point)} ({reason})" for reason, point in reversed(other.items())]
    if only_larger:
        reasons.append("smaller sizes were not tried, since a loop at run time may never end on less data")
    return "; ".join(reasons) or "no other size was found at which the model and the file can both be run"


def judge(verification: Verification, options: Options, report: Report, mismatch: Mismatch | None) -> None:
    if verification.skipped is not None:
        report.notes.append(str(verification))
        return
    if verification.passed:
        if verification.arbitrated:
            report.notes += verification.lines(statistics=False)
        return
    found = [str(mismatch)] if mismatch is not None else []
    lines = verification.lines(statistics=mismatch is None)
    message = "\n".join(["the exported model does not compute what the model computes", *found, *lines])
    if options.verify == "warn":
        report.warnings.append(message)
        warn(message, VerificationWarning)
    else:
        raise VerificationError(message, mismatch)
