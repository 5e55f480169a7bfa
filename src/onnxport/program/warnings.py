"""Warnings and notes of an export, and the verdict of its verification."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from onnxport.capture.axes.axis import Axis, shown
from onnxport.capture.captured import Capture
from onnxport.errors import DynamicAxisWarning, TraceWarning, VerificationError, VerificationWarning
from onnxport.graph.ir import Source
from onnxport.verification.checked import Checked
from onnxport.verification.runners import told_of_missing_domains

OWN_FOLDER = os.path.dirname(os.path.dirname(__file__)) + os.sep


@dataclass(frozen=True)
class Message:
    """A warning; without a ``category`` it is only in the report.

    ``source`` is the line of the model that it is about; without one it is about the call of the export. The report has
    it as a warning, or as a ``note``.
    """

    text: str
    category: type[Warning] | None = None
    source: Source | None = None
    note: bool = False


def emit(messages: Iterable[Message]) -> None:
    """Warn of those messages that are warnings."""
    for message in messages:
        if message.category is None:
            continue
        if message.source is not None:
            warnings.warn_explicit(message.text, message.category, message.source.file, message.source.line)
        else:
            _warn_at_call(message.text, message.category)


def _warn_at_call(text: str, category: type[Warning]) -> None:
    """Warn at the line that called the export."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(OWN_FOLDER):
        frame = frame.f_back
    registry = frame.f_globals.setdefault("__warningregistry__", {})
    name = frame.f_globals.get("__name__")
    warnings.warn_explicit(text, category, frame.f_code.co_filename, frame.f_lineno, name, registry)


def of_capture(captured: Capture, axis_warnings: Sequence[str]) -> list[Message]:
    """Notes on frozen values and on declared axes that became static."""
    found = [Message(note, note=True) for note in dict.fromkeys(captured.notes)]
    found += [
        Message(f"{label} is static: the model does not accept other sizes", note=True) for label in captured.fixed
    ]
    for value in captured.frozen:
        if value.harmless or value.source is None:
            found.append(Message(f"{value.source}: {value.value!r} was read while the model was recorded", note=True))
        else:
            found.append(Message(value.message, TraceWarning, value.source))
    found += [Message(text, DynamicAxisWarning) for text in (*captured.axis_warnings, *axis_warnings)]
    found += [Message(text, TraceWarning) for text in captured.warnings]
    return found


def of_results(captured: Capture, varying: Collection[int], unlike_plain: str | None) -> list[Message]:
    """Warnings about differences between a plain call of the model and the file.

    ``varying`` are the indices of Python values in the result that are constants of the program, and differ at other
    sizes or data. ``unlike_plain`` says how the model's result differs while it is exported.
    """
    found = []
    if unlike_plain is not None:
        text = (
            f"the model asks is_in_onnx_export(), and on the example {unlike_plain}. The file computes what the model "
            "computes during the export; if that is not intended, change the model's branch for the export."
        )
        found.append(Message(text, TraceWarning))
    for index in sorted(varying):
        name = captured.structure.names[index]
        entry = f"entry {name} of the model's result" if name else "the model's result"
        text = (
            f"{entry} is a Python value ({captured.constants[index]!r} on the example) that differs at other sizes or "
            "data, and is not an output of the file. Return it as a tensor, as in torch.tensor(x.shape[0]) > 3."
        )
        found.append(Message(text, TraceWarning))
    return found


def of_operators(foreign: Sequence[str]) -> list[Message]:
    """Warnings about operators in ONNX's own domain that ONNX does not have, so no runtime knows them."""
    message = told_of_missing_domains(foreign)
    return [] if message is None else [Message(message, VerificationWarning)]


def of_check(checked: Checked, axes: Sequence[Axis]) -> list[Message]:
    """Warnings if the file was not checked, or an axis only at the example's size."""
    verification = checked.verification
    if verification.skipped is not None:
        return [Message(str(verification), VerificationWarning if checked.tried else None, note=True)]
    cautions = dict.fromkeys(case.caution for case in verification.cases if case.caution)
    untaken = [
        f"{line or 'the model'}: no data were found for which this condition is {outcome}: what the file does then is "
        "what the model did when it was told so, and was not checked in ONNX Runtime. Check it with onnxport.verify."
        for line, outcome in checked.untaken
    ]
    warned = [Message(text, VerificationWarning) for text in cautions]
    return [*warned, *(Message(text, note=True) for text in untaken), *_unchecked_axes(checked, axes)]


def _unchecked_axes(checked: Checked, axes: Sequence[Axis]) -> list[Message]:
    verification = checked.verification
    return [
        Message(
            f"axis {axis.label!r} was checked only at the example's size, {axis.size}: "
            f"{_why_unchecked(axis, checked)}. Check the file at other sizes with onnxport.verify.",
            VerificationWarning,
        )
        for axis in (axes if verification.passed else ())
        if all(case.undecided or case.sizes[axis.label] == axis.size for case in verification.cases)
    ]


def _why_unchecked(axis: Axis, checked: Checked) -> str:
    other = {found.reason: found.sizes for found in reversed(checked.refusals) if found.sizes[axis.label] != axis.size}
    reasons = [f"the model does not accept {shown(point)} ({reason})" for reason, point in reversed(other.items())]
    if checked.only_larger:
        reasons.append("smaller sizes were not tried, because a loop at run time may never end on less data")
    return "; ".join(reasons) or "no other size was found at which the model and the file can both be run"


def of_verdict(checked: Checked, *, warn_only: bool) -> list[Message]:
    """The verdict of the check. A wrong file is an error, or a warning on request."""
    verification, mismatch = checked.verification, checked.mismatch
    if verification.skipped is not None:
        return []
    if verification.passed:
        is_noted = verification.arbitrated or any(case.undecided for case in verification.cases)
        return [Message(line, note=True) for line in verification.lines(statistics=False)] if is_noted else []
    found = [str(mismatch)] if mismatch is not None else []
    lines = verification.mismatches(statistics=mismatch is None)
    text = "\n".join(["the exported model gives other results than the torch model", *found, *lines])
    if not warn_only:
        raise VerificationError(text, mismatch)
    return [Message(text, VerificationWarning)]
