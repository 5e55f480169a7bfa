"""What runs in a worker's process. Its imports take seconds, so that nobody else waits for them."""

from __future__ import annotations

import functools
import os
import sys
from multiprocessing.connection import Connection

import torch

from tests.ops.opinfo.judge import judge
from tests.ops.opinfo.samples import SAMPLES, samples_of
from tests.ops.opinfo.verdict import VOID


def serve(connection: Connection) -> None:
    """Judge samples until nobody asks any more."""
    torch.set_num_threads(1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
    # Tasks come operator by operator.
    samples = functools.lru_cache(maxsize=1)(samples_of)
    connection.send("ready")
    while True:
        try:
            task = connection.recv()
        except EOFError:
            return
        found = samples(task.operator, task.dtype, SAMPLES)
        connection.send(judge(found[task.index], task.opset) if task.index < len(found) else VOID)
