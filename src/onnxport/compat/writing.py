"""Writing into the graph of a trace beside torch's tracer."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from onnxport.compat import functions
from onnxport.compat.tracing import set_tracing_state, tracing_state, untraced

# The tracer's value for a tensor; a constant for one that the trace has not seen.
known_value: Callable[[torch.Tensor], Any] = torch._C._get_value_trace  # type: ignore[attr-defined]


def sees_more() -> bool:
    """Whether a call may be more to the tracer than the operator of its name.

    It may be casts before it, or an operator on what ``torch.vmap`` hides, or part of an autograd Function.
    """
    return bool(
        torch._C._is_any_autocast_enabled()
        or torch._C._functorch.peek_interpreter_stack() is not None
        or functions.is_kept_running()
    )


# Lets the tracer take a tensor for a value that it has already.
trace_as: Callable[[torch.Tensor, Any], None] = torch._C._set_value_trace  # type: ignore[attr-defined]


def set_traced_value(tensor: torch.Tensor, value: Any) -> int:
    """Let the tracer take a tensor for this value, whose number is returned."""
    value.inferTypeFrom(tensor)
    trace_as(tensor, value)
    number: int = value.unique()
    return number


def packed(graph: Any, values: Sequence[Any]) -> Any:
    """A list of tensors in a traced graph."""
    made = graph.insertNode(graph.create("prim::ListConstruct", values, 1)).output()
    made.setType(torch._C.ListType.ofTensors())
    return made


def loop_block(node: Any, firsts: Sequence[torch.Tensor]) -> tuple[Any, list[torch.Tensor]]:
    """The block of a loop, and tensors that are, in the trace, what a round is given; at first they are these."""
    block = node.addBlock()
    block.addInputToBlock().setType(torch._C.IntType.get())
    with untraced():
        entries = [first.clone() for first in firsts]
    for entry in entries:
        set_traced_value(entry, block.addInputToBlock())
    return block, entries


@contextlib.contextmanager
def into(graph: Any, block: Any) -> Iterator[None]:
    """The tracer writes into a block of its graph, and goes on behind it, also after an error, which it stops at."""
    state = tracing_state()
    after = graph.insertPoint()
    graph.setInsertPoint(block)
    try:
        yield
    except BaseException:
        set_tracing_state(state)
        use_up_indices()
        raise
    finally:
        graph.setInsertPoint(after)


def use_up_indices() -> None:
    """An index that was refused (x[traced number] out of range) is still kept for the operator that should have got it.

    The next one, or the next trace, would take it for its own and crash: it is used up while this graph is there.
    """
    torch.zeros(1).select(0, 0)
    torch.zeros(1)[0:1:1]


def condition(graph: Any, tensor: torch.Tensor) -> Any:
    """A node that makes a number of a tensor with one element, true or false."""
    made = graph.insertNode(graph.create("aten::Bool", [known_value(tensor)], 1))
    made.output().setType(torch._C.BoolType.get())
    return made


# Of operators with these names, and of most that begin with ``special_``, the tracer makes others in the end.
RENAMED = frozenset(
    {
        "absolute", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctan2", "arctanh", "clip", "concat",
        "concatenate", "det", "divide", "fix", "greater", "greater_equal", "inverse", "less", "less_equal",
        "linalg_matmul", "matrix_exp", "matrix_power", "multiply", "negative", "not_equal", "row_stack", "rsub",
        "subtract", "true_divide",
    }
)  # fmt: skip


def schemas_of(function: Any) -> Sequence[Any]:
    """The overloads of the operator that a function of torch written in C++ calls, unless it is more than that one.

    The tracer renames some; ``sparse_coo_tensor`` casts what it is given before.
    """
    if function.__name__ in RENAMED or function.__name__.startswith(("special_", "sparse_")):
        return ()
    schemas: Sequence[Any] = torch._C._jit_get_schemas_for_operator(f"aten::{function.__name__}")
    return schemas
