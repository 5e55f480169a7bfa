"""One export on its way: its report, who is told how far it is, and the page about it, also where it fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import onnx_ir as ir

from onnxport.errors import ExportError, OptionError
from onnxport.graph.ir import Graph
from onnxport.options.options import Options
from onnxport.program.page import write_page
from onnxport.report.progress import Tell, watched
from onnxport.report.report import Report
from onnxport.verification.bisect import StepError


@dataclass
class Attempt:
    """What is asked, what was found so far, and for the page what became of the model."""

    options: Options
    report: Report
    tell: Tell = lambda phase, done, total: None
    model: ir.Model | None = None
    graph: Graph | None = None
    trail: Sequence[StepError] = ()

    @contextmanager
    def phase(self, name: str, total: int | None = None) -> Iterator[Callable[[int], None]]:
        """A phase, whose time the report has; what is yielded is called with how much more is done."""
        done = 0

        def advance(more: int) -> None:
            nonlocal done
            done = done + more if total is None else min(done + more, total)
            self.tell(name, done, total)

        with self.report.phase(name):
            self.tell(name, 0, total)
            yield advance
            if total is None or done < total:
                self.tell(name, done if total is None else total, total)

    def fail(self, error: BaseException) -> None:
        """Take down why it fails; the page is for what is wrong with the model, not with the call."""
        self.report.fail(error)
        if isinstance(error, ExportError):
            error.report = self.report
        if isinstance(error, Exception) and not isinstance(error, OptionError):
            self.write_page()

    def write_page(self) -> None:
        """Write the page, if one is asked for."""
        if self.options.report is not None:
            write_page(self.options.report, self.report, self.model, self.graph, self.trail)


@contextmanager
def attempted(options: Options) -> Iterator[Attempt]:
    """An export that is told of while it lasts, and whose failure is taken down."""
    report = Report(options.opset)
    attempt = Attempt(options, report)
    try:
        with watched(options.progress) as attempt.tell:
            yield attempt
    except BaseException as error:
        attempt.fail(error)
        raise
