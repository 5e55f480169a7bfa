"""What a graph tells of the model that a further run of it can follow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onnxport.capture.build.choices import Turned
from onnxport.capture.build.graph import Built
from onnxport.capture.record.source_lines import names_in
from onnxport.capture.record.tracing import Function
from onnxport.graph.ir import Source


def deciding_functions(built: Built) -> set[Function]:
    """The functions that read data which the graph does not follow."""
    sources = [read.source for read, depends in built.frozen if depends and read.source is not None]
    return {(source.file, source.function) for source in sources}


def counting_lines(built: Built) -> set[Source]:
    """The lines on which the model compares sizes that data decide, or has a range of such a length."""
    conditions = "compare", "__index__"
    reads = [read for read, depends in built.frozen if depends and read.how in conditions and not read.by_torch]
    return {read.source for read in reads if read.source is not None}


def converting_modules(built: Built, dead: Mapping[int, Any]) -> list[dict[str, Any]]:
    """The modules in which a built-in function converts a number that follows from sizes or data, or compares sizes
    with an outcome that turns."""
    names = [loss.names or names_in(loss.source) for loss, _ in built.losses]
    reads = [read for read, depends in built.frozen if depends or read.by_torch]
    names += [read.names for read in reads if read.how in ("__int__", "__float__", "__len__", "__index__", "compare")]
    return names + [reason.condition.names for reason in dead.values() if isinstance(reason, Turned)]
