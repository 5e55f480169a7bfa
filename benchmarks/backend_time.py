"""The time of models in `onnxport.backend`, against torch's own time for the same model.

Each model has operators that ONNX lacks, or is written with operators of torch throughout. Only ratios of times from
the same run are judged, and the repeats of all that is compared are interleaved. The exit code is 1 when the backend
takes more than 1.3 times as long as torch for a model with fallbacks.

python -m benchmarks.backend_time [--repeats N]
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

import onnxport
from examples.models import ENCODER, RESNET50
from onnxport import OperatorExportTypes

AT_MOST = 1.3


@contextmanager
def own_operator() -> Iterator[None]:
    """An operator that only torch has."""
    library: Any = torch.library.Library("benchmarks", "FRAGMENT")  # type: ignore[no-untyped-call]
    library.define("smooth(Tensor x, float beta) -> Tensor")
    library.impl("smooth", nn.functional.softplus, "CompositeExplicitAutograd")
    try:
        yield
    finally:
        library._destroy()


class Smooth(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = torch.ops.benchmarks.smooth(x, 2.0)
        return result


def with_smooth(model: nn.Module) -> nn.Module:
    """The model with torch's own operator in the place of every activation."""
    for name, child in model.named_children():
        if isinstance(child, (nn.ReLU, nn.GELU)):
            setattr(model, name, Smooth())
        else:
            with_smooth(child)
    return model


def multilayer(width: int = 1024) -> nn.Module:
    layers = [layer for _ in range(6) for layer in (nn.Linear(width, width), nn.LayerNorm(width), nn.ReLU())]
    return nn.Sequential(*layers)


def cases() -> Iterator[tuple[str, nn.Module, tuple[Any, ...], OperatorExportTypes]]:
    fallback, every = OperatorExportTypes.ONNX_ATEN_FALLBACK, OperatorExportTypes.ONNX_ATEN
    torch.manual_seed(0)
    yield "layers, fallback", with_smooth(multilayer()), (torch.randn(64, 1024),), fallback
    for example in (RESNET50, ENCODER):
        model, inputs = example.build()
        yield f"{example.name}, every operator", model, inputs, every
        yield f"{example.name}, fallback", with_smooth(model), inputs, fallback


def ratio(
    model: nn.Module, inputs: tuple[Any, ...], kind: OperatorExportTypes, repeats: int
) -> tuple[float, float, int]:
    """The median times of torch and of the backend, and in how many pieces ONNX Runtime runs."""
    model.eval()
    program = onnxport.export(model, inputs, operator_export_type=kind)
    prepared = onnxport.backend.prepare(program.model_proto)
    arrays = [x.numpy() for x in inputs]

    def in_torch() -> object:
        with torch.no_grad():
            return model(*inputs)

    tasks: list[Callable[[], object]] = [in_torch, lambda: prepared.run(arrays)]
    times: list[list[float]] = [[], []]
    for task in tasks:
        task()
    for _ in range(repeats):
        for column, task in zip(times, tasks, strict=True):
            start = time.perf_counter()
            task()
            column.append(time.perf_counter() - start)
    own, backend = (statistics.median(column) for column in times)
    return own, backend, prepared.pieces


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=15)
    repeats = parser.parse_args().repeats
    missed = False
    with own_operator():
        print(f"{'model':<34}{'torch':>10}{'backend':>10}{'ratio':>8}{'pieces':>8}")
        for name, model, inputs, kind in cases():
            own, backend, pieces = ratio(model, inputs, kind, repeats)
            judged = kind is OperatorExportTypes.ONNX_ATEN_FALLBACK
            missed |= judged and backend / own > AT_MOST
            expected = f"  at most {AT_MOST}" if judged else ""
            print(f"{name:<34}{own * 1e3:>8.1f}ms{backend * 1e3:>8.1f}ms{backend / own:>8.2f}{pieces:>8}{expected}")
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
