"""Samples that kill or hold up the process that judges them."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection

import pytest

from tests.ops.opinfo.verdict import PASS, Task
from tests.ops.opinfo.workers import Worker


def serve(connection: Connection) -> None:
    """Does what the name of the operator says."""
    connection.send("ready")
    while True:
        task = connection.recv()
        if task.operator == "crash":
            os.abort()
        if task.operator == "hang":
            time.sleep(60)
        connection.send(PASS)


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    started = Worker(serve, seconds=2.0)
    yield started
    started.stop()


@pytest.mark.parametrize("trouble", ["crash", "hang"])
def test_trouble_is_the_failure_of_one_sample(worker: Worker, trouble: str) -> None:
    kinds = [worker.judge(Task(operator, "float32", 0)).kind for operator in ("add", trouble, "add")]
    assert kinds == ["pass", trouble, "pass"]


def test_samples_end_at_the_first_trouble(worker: Worker) -> None:
    assert [verdict.kind for verdict in worker.samples("crash", "float32", 3)] == ["crash"]
    assert [verdict.kind for verdict in worker.samples("add", "float32", 3)] == ["pass"] * 3
