"""The memory that the export of a large model takes beyond the model itself.

    python -m benchmarks.memory [--gigabytes 3]

Writes the model into a folder of its own, which is removed afterwards, loads it in ONNX Runtime, and prints the peak of
the memory that belongs to the process alone (the pages of mapped files do not count). The exit code is 1 above 400 MB.
"""

from __future__ import annotations

import argparse
import pathlib
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import onnxruntime
import torch
from torch import nn

import onnxport

AT_MOST = 400e6
WIDTH = 4096
INTERVAL = 0.005


def own_memory() -> int:
    """The bytes of this process that no file holds."""
    lines = pathlib.Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon"))


@contextmanager
def peak() -> Iterator[list[int]]:
    """The memory at the start and the most that was seen until the end."""
    seen = [own_memory()] * 2
    done = threading.Event()

    def watch() -> None:
        while not done.is_set():
            seen[1] = max(seen[1], own_memory())
            time.sleep(INTERVAL)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield seen
    finally:
        done.set()
        thread.join()


def large_model(gigabytes: float) -> nn.Module:
    """Linear layers whose weights are really there: memory that was never written to takes none."""
    count = round(gigabytes * 1e9 / (4 * WIDTH * WIDTH))
    with torch.device("meta"):
        model = nn.Sequential(*(nn.Linear(WIDTH, WIDTH) for _ in range(count)))
    model = model.to_empty(device="cpu").eval()
    with torch.no_grad():
        for place, parameter in enumerate(model.parameters()):
            parameter.fill_(1e-4 + 1e-6 * place)
    return model


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure the memory that an export takes.")
    parser.add_argument("--gigabytes", type=float, default=3.0)
    options = parser.parse_args()
    x = torch.randn(2, WIDTH)
    onnxport.export(nn.Linear(2, 2), torch.randn(2, 2))  # what happens once in a process
    model = large_model(options.gigabytes)
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "model.onnx")
        with peak() as seen:
            program = onnxport.export(model, x, path, dynamic_axes={"input": {0: "n"}})
        files = {file.name: file.stat().st_size for file in sorted(path.parent.iterdir())}
        expected = model(x).detach()
        del model
        session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        (result,) = session.run(None, {"input": x.numpy()})
    beyond = seen[1] - seen[0]
    for name, size in files.items():
        print(f"{name:20} {size / 1e6:10.1f} MB")
    print(program.verification)
    print(f"memory at most {beyond / 1e6:.0f} MB beyond the model, {AT_MOST / 1e6:.0f} MB allowed")
    torch.testing.assert_close(torch.from_numpy(result), expected, rtol=1e-3, atol=1e-4)
    print("loads in ONNX Runtime and computes the same")
    return int(beyond > AT_MOST)


if __name__ == "__main__":
    sys.exit(main())
