"""Processes that judge samples: what crashes or hangs in one of them is the failure of that sample alone."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import TypeVar

from tests.ops.opinfo.verdict import VOID, Task, Verdict

# What a process runs: it sends something when it is ready, and then a verdict for each task.
Serve = Callable[[Connection], None]

Item = TypeVar("Item")
Result = TypeVar("Result")

START_SECONDS = 300
SAMPLE_SECONDS = 60


class Worker:
    """A process that is started when it is first needed, and again after a sample has killed it."""

    def __init__(self, serve: Serve, seconds: float = SAMPLE_SECONDS) -> None:
        self._serve = serve
        self._seconds = seconds
        self._process: multiprocessing.process.BaseProcess | None = None
        self._connection: Connection | None = None

    def judge(self, task: Task) -> Verdict:
        connection = self._connection or self._start()
        try:
            connection.send(task)
            if connection.poll(self._seconds):
                return connection.recv()
            verdict = Verdict("hang", f"no result in {self._seconds} s")
        except (EOFError, ConnectionError):
            verdict = Verdict("crash", "the process died")
        self.stop()
        return verdict

    def samples(self, operator: str, dtype: str, count: int) -> list[Verdict]:
        """The verdicts on the first samples, up to the first that crashes or hangs; without those of no account."""
        verdicts: list[Verdict] = []
        for index in range(count):
            verdicts.append(self.judge(Task(operator, dtype, index)))
            if verdicts[-1].kind in ("crash", "hang"):
                break
        return [verdict for verdict in verdicts if verdict.kind != VOID.kind]

    def stop(self) -> None:
        if self._process is not None and self._connection is not None:
            self._connection.close()
            self._process.kill()
            self._process.join()
        self._process = self._connection = None

    def _start(self) -> Connection:
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=self._serve, args=(theirs,), daemon=True)
        self._process.start()
        theirs.close()
        assert self._connection.poll(START_SECONDS), "the worker does not start"
        self._connection.recv()
        return self._connection


class Pool:
    """Several workers that share the work."""

    def __init__(self, serve: Serve, count: int, seconds: float = SAMPLE_SECONDS) -> None:
        self._workers = [Worker(serve, seconds) for _ in range(count)]
        self._idle: SimpleQueue[Worker] = SimpleQueue()
        for worker in self._workers:
            self._idle.put(worker)

    def map(self, function: Callable[[Worker, Item], Result], items: Iterable[Item]) -> list[Result]:
        """``function(worker, item)`` of all items, in their order."""

        def run(item: Item) -> Result:
            worker = self._idle.get()
            try:
                return function(worker, item)
            finally:
                self._idle.put(worker)

        with ThreadPoolExecutor(len(self._workers)) as threads:
            return list(threads.map(run, items))

    def stop(self) -> None:
        for worker in self._workers:
            worker.stop()
