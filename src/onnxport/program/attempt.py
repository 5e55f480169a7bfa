"""One running export: its report, its progress, and its report page, also if it fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import onnx_ir as ir

from onnxport.errors import ExportError, OptionError
from onnxport.graph.ir import Graph
from onnxport.options.options import Options
from onnxport.program.page import write_page
from onnxport.report.progress import Listener, watched
from onnxport.report.report import Report
from onnxport.verification.bisect import StepError


@dataclass
class Attempt:
    """The options, the report so far, and the model for the page."""

    options: Options
    report: Report
    notify: Listener = lambda phase, done, total: None
    model: ir.Model | None = None
    graph: Graph | None = None
    trail: Sequence[StepError] = ()

    @contextmanager
    def phase(self, name: str, total: int | None = None) -> Iterator[Callable[[int], None]]:
        """A timed phase; yields a function to call with the additional progress."""
        done = 0

        def advance(more: int) -> None:
            nonlocal done
            done = done + more if total is None else min(done + more, total)
            self.notify(name, done, total)

        with self.report.phase(name):
            self.notify(name, 0, total)
            yield advance
            if total is None or done < total:
                self.notify(name, done if total is None else total, total)

    def note_graphs(self, model: ir.Model, graph: Graph) -> None:
        """The graphs that the page shows."""
        self.model, self.graph = model, graph

    def note_trail(self, trail: Sequence[StepError]) -> None:
        """The errors along the model, which the page shows."""
        self.trail = trail

    def fail(self, error: BaseException) -> None:
        """Note the error. The page is written for errors of the model, not of the call."""
        self.report.fail(error)
        if isinstance(error, ExportError):
            error.report = self.report
        if isinstance(error, Exception | SystemExit) and not isinstance(error, OptionError):
            self.write_page()

    def write_page(self) -> None:
        """Write the page, if it is requested."""
        if self.options.report is not None:
            write_page(self.options.report, self.report, self.model, self.graph, self.trail)


@contextmanager
def attempted(options: Options) -> Iterator[Attempt]:
    """Show the progress of an export while it runs, and note its error."""
    report = Report(options.opset)
    attempt = Attempt(options, report)
    try:
        with watched(options.progress) as attempt.notify:
            yield attempt
    except BaseException as error:
        attempt.fail(error)
        raise
