"""Which optimisation changes the result: the passes one by one, each followed by a look at the outputs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import onnx_ir as ir
import torch

from onnxport.graph.ir import Node
from onnxport.optimize import pipeline
from onnxport.save import serialize
from onnxport.verification.compare import compare
from onnxport.verification.runtime import Session

# How much of the values of two graphs is compared at once.
CHUNK_BYTES = 256 * 2**20
FREE_INITIALIZERS = 4


@dataclass(frozen=True)
class BrokenBy:
    """A pass that makes a right model wrong: the model before and after it, and the first value that is another."""

    name: str
    before: bytes
    after: bytes
    origin: Node | None
    values: tuple[torch.Tensor, torch.Tensor] | None


Right = Callable[[Sequence[torch.Tensor]], bool]


def find_pass(
    build: Callable[[], ir.Model], feeds: Mapping[str, torch.Tensor], is_right: Right, *, fold: bool, training: bool
) -> BrokenBy | None:
    """The first pass after which the outputs are not right any more; None if they are right after all of them."""
    for every in (False, True):
        # Looked at after the passes that say that they changed something; then, if need be, after the others too.
        model = build()
        for count, applied in enumerate(_apply(model, every, fold=fold, training=training)):
            if not is_right(_outputs(model, feeds)):
                before = build()
                steps = _apply(before, every, fold=fold, training=training)
                for _ in range(count):
                    next(steps)
                return _broken(before, model, applied, feeds)
    return None


def _broken(
    before: ir.Model, after: ir.Model, applied: ir.passes.PassBase, feeds: Mapping[str, torch.Tensor]
) -> BrokenBy:
    value, values = _first_changed(before, after, feeds) or (None, None)
    origin = None if value is None else _origin(value)
    return BrokenBy(_described(applied), serialize(before), serialize(after), origin, values)


def _apply(model: ir.Model, every: bool, *, fold: bool, training: bool) -> Iterator[ir.passes.PassBase]:
    """Apply the pipeline's passes in its order; yields after each, or after each that changed something."""
    for stage in pipeline(fold_constants=fold, training=training).passes:
        singles = stage.passes if isinstance(stage, ir.passes.PassManager) else [stage]
        for _ in range(stage.steps if isinstance(stage, ir.passes.PassManager) else 1):
            changed = False
            for single in singles:
                modified = single(model).modified
                changed = changed or modified
                if modified or every:
                    yield single
            if not changed:
                break


def _outputs(model: ir.Model, feeds: Mapping[str, torch.Tensor]) -> list[torch.Tensor]:
    return Session(_runnable(model, model.graph.outputs), optimize=False).run(feeds)


def _runnable(model: ir.Model, outputs: Sequence[ir.Value]) -> bytes:
    graph = model.graph
    view = ir.GraphView(
        graph.inputs,
        [ir.Value(name=value.name, type=value.type) for value in outputs],
        nodes=graph,
        initializers=list(graph.initializers.values()),
        opset_imports=graph.opset_imports,
        name=graph.name,
    )
    version = max(model.ir_version or 0, FREE_INITIALIZERS)
    return serialize(ir.Model(view, ir_version=version, functions=tuple(model.functions.values())))  # type: ignore[arg-type]


def _first_changed(
    before: ir.Model, after: ir.Model, feeds: Mapping[str, torch.Tensor]
) -> tuple[ir.Value, tuple[torch.Tensor, torch.Tensor]] | None:
    """The first value of the graph after the pass that the graph before has under the same name, with other content."""
    old = {value.name: value for node in before.graph for value in node.outputs}
    shared = [value for node in after.graph for value in node.outputs if value.name in old]
    shared = [value for value in shared if value.type is not None and isinstance(value.type, ir.TensorType)]
    for chunk in _chunks(shared):
        right = Session(_runnable(before, [old[value.name] for value in chunk]), optimize=False).run(feeds)
        wrong = Session(_runnable(after, chunk), optimize=False).run(feeds)
        for value, expected, actual in zip(chunk, right, wrong, strict=True):
            if compare(expected, actual).problem is not None:
                return value, (expected, actual)
    return None


def _chunks(values: Sequence[ir.Value]) -> Iterator[list[ir.Value]]:
    chunk: list[ir.Value] = []
    taken = 0
    for value in values:
        sizes = [size for size in value.shape or () if isinstance(size, int)]
        size = 8 * int(torch.tensor(sizes, dtype=torch.int64).prod()) if sizes else 8
        if chunk and taken + size > CHUNK_BYTES:
            yield chunk
            chunk, taken = [], 0
        chunk.append(value)
        taken += size
    if chunk:
        yield chunk


def _origin(value: ir.Value) -> Node | None:
    """The captured node that a value comes from; where a pass made it, that of the nearest node before."""
    seen: set[ir.Value] = set()
    waiting = [value]
    while waiting:
        candidate = waiting.pop(0)
        producer = candidate.producer()
        if producer is None or candidate in seen:
            continue
        seen.add(candidate)
        origin = producer.meta.get("origin")
        if isinstance(origin, Node):
            return origin
        waiting += [source for source in producer.inputs if source is not None]
    return None


def _described(applied: ir.passes.PassBase) -> str:
    kind = type(applied)
    return f"{kind.__qualname__} ({inspect.getsourcefile(kind)}:{inspect.getsourcelines(kind)[1]})"
