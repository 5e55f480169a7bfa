"""Removal of mutation: afterwards no node writes to its arguments, and the results are the same."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import torch

from onnxport.errors import ExportError
from onnxport.graph.functionalize.aliases import Alias, Aliases, Memory
from onnxport.graph.functionalize.carried import remove_unchanged_carries
from onnxport.graph.functionalize.chosen import Branch, Choices
from onnxport.graph.functionalize.entangled import Entangled
from onnxport.graph.functionalize.flows import Flows, has_memory, holds_tensors, read_outside
from onnxport.graph.functionalize.inherited import InheritedAliases, written_outside
from onnxport.graph.functionalize.layouts import Layouts
from onnxport.graph.functionalize.same_content import remove_aliases
from onnxport.graph.functionalize.strided import rebase_strided
from onnxport.graph.functionalize.views import (
    RESHAPES,
    Emitter,
    View,
    argument,
    is_copy,
    is_identity,
    source_name,
)
from onnxport.graph.functionalize.writes import (
    REBINDS,
    VIEWS_IN_PLACE,
    Form,
    dtype_of_factory,
    functional_form,
    result_dtypes,
)
from onnxport.graph.interpret import mutates, writes
from onnxport.graph.ir import Argument, Block, Graph, Node, TensorType, Value, map_values, values_in
from onnxport.graph.sizes import size
from onnxport.graph.sizes import values as sizes_at

# Have no effect on content.
WITHOUT_EFFECT = frozenset({"aten::requires_grad_", "aten::retain_grad", "aten::resize_", "aten::resize_as_"})


def functionalize(graph: Graph, own: frozenset[str] = frozenset()) -> None:
    """Replace in-place operators and ``out=`` arguments by functional ones, in place on the graph.

    ``own`` are operators with a converter of the user's: they stay even if they only return their argument.

    - An operator that writes becomes its functional form; the result is cast to the dtype of the target.
    - A write to a view is written back to its base when the base or another view of it is next read.
    - A copy of an alias onto itself is dropped; a copy onto a whole alias becomes the copied value.
    """
    block = graph.block
    rebase_strided(graph)
    if mutates(block):
        remove_unchanged_carries(block)
        _Functionalizer(block, graph.captures).run()
    remove_aliases(block, own)
    block.remove_dead_nodes()


class _Functionalizer:
    """One walk over a block; ``aliases`` has the content of each captured value at the present node."""

    def __init__(self, block: Block, captures: int) -> None:
        self.block = block
        self.captures = captures
        self.emitter = Emitter()
        self.aliases: Aliases = Aliases(self.emitter)
        self.entangled = Entangled(self.aliases)
        self.layouts = Layouts()
        self.flows = Flows()
        self.choices = Choices(self.emitter, self.aliases, self.flows)

    def run(self, also: Sequence[Alias] = ()) -> None:
        """Rewrite the block; the content of the aliases ``also`` at its end becomes a result of it."""
        for node in self.block.nodes:
            self._visit(node)
        self.entangled.read(self.block.outputs, "the model's outputs")
        self.block.outputs[:] = [self.aliases.content(value) for value in self.block.outputs]
        self.block.outputs += [self.aliases.read(alias) for alias in also]
        self.block.nodes[:] = self.emitter.nodes

    def _visit(self, node: Node) -> None:
        if node.blocks:
            return self._blocks(node)
        if writes(node):
            return self._write(node)
        source = source_name(node)
        if source is not None and not is_copy(node, node.inputs[source], self.layouts):
            return self._view(node, source)
        self.layouts.compute(node)
        self.entangled.note(node)
        if holds_tensors(node):
            for output in filter(has_memory, node.outputs):
                self.flows.add(map(self._memory, filter(has_memory, node.values())), self._memory(output))
        self.entangled.read(list(node.inputs.values()), _where(node))
        node.inputs = self._contents(node.inputs)
        self.emitter.nodes.append(node)
        return None

    def _blocks(self, node: Node) -> None:
        """A branch or loop: tensors outside that it writes to become results, and are carried by a loop."""
        targets = [self.aliases.of(value) for value in written_outside(node.blocks)]
        written = {alias.memory: _root(alias) for alias in targets}
        before = [self.aliases.read(root) for root in written.values()]
        outside = list(map(self.aliases.of, read_outside(node)))
        earlier = len(self.flows.writes)
        carried = node.inputs.get("carried", [])
        node.inputs = self._contents(node.inputs)
        is_loop = node.op == "prim::Loop"
        self.choices.lose(written, node)
        shared: list[tuple[Value, Alias]] = []
        branches: list[Branch] = []
        for block in node.blocks:
            entries = [Value(content.type) for content in before] if is_loop else before
            inner, aliases = self._inside(block, dict(zip(written, entries, strict=True)))
            outputs = list(block.outputs)
            branches.append(Branch(aliases, outputs, {output for step in block.all_nodes() for output in step.outputs}))
            if is_loop:
                for first, entry in zip(carried, block.inputs[1:], strict=True):
                    self._flow(self, first, inner, entry)
            inner.run([aliases.root(memory) for memory in written])
            self._flow_out(node, block, inner, outputs, carried)
            if is_loop:
                self._next_round(outside, inner, block, earlier, written)
                block.inputs += entries
            shared += self._sharing(node, block, aliases, outputs)
        chosen = [] if is_loop else self.choices.of_branch(node, branches, written)
        if is_loop:
            node.inputs = {**node.inputs, "carried": [*node.inputs["carried"], *before]}
        self._write_results(node, written, before)
        # After the inner blocks: their writes are in the results.
        known = {choice.output for choice in chosen}
        pairs = [(self.aliases.of(output), alias) for output, alias in shared]
        pairs = [(output, alias) for output, alias in pairs if output not in known]
        for left, right in (*pairs, *(pair for choice in chosen for pair in self.choices.added(choice))):
            left.share(right)

    def _write_results(self, node: Node, written: dict[Memory, Alias], before: Sequence[Value]) -> None:
        """Add the memories that the node's blocks write to as results of the node."""
        after = [Value(content.type) for content in before]
        for value in after:
            value.node = node
        node.outputs += after
        self.emitter.nodes.append(node)
        for root, content in zip(written.values(), after, strict=True):
            self.aliases.write(root, content, node)

    def _inside(self, block: Block, entries: dict[Memory, Value]) -> tuple[_Functionalizer, InheritedAliases]:
        """The functionalizer of an inner block; ``entries`` are the contents of the outside memories it writes to."""
        inner = _Functionalizer(block, self.captures)
        inner.aliases = aliases = InheritedAliases(inner.emitter, self.aliases, entries)
        inner.layouts, inner.flows = self.layouts, self.flows
        inner.choices = Choices(inner.emitter, aliases, self.flows)
        for memory in entries:
            self.flows.same(aliases.root(memory).memory, memory)
        return inner, aliases

    def _flow(
        self, source: _Functionalizer, origin: Value, target: _Functionalizer, taken: Value, *, back: bool = False
    ) -> None:
        if has_memory(origin):
            self.flows.add([source._memory(origin)], target._memory(taken), back=back)

    def _flow_out(
        self, node: Node, block: Block, inner: _Functionalizer, outputs: Sequence[Value], carried: Sequence[Value]
    ) -> None:
        """Note that the results of a block become those of its node, and in a loop inputs of the next iteration."""
        results = outputs[1:] if node.op == "prim::Loop" else outputs
        for output, result in zip(node.outputs, results, strict=True):
            self._flow(inner, result, self, output)
        for output, first, entry, result in zip(node.outputs, carried, block.inputs[1:], results, strict=False):
            self._flow(self, first, self, output)
            self._flow(inner, result, inner, entry, back=True)

    def _next_round(
        self, outside: Sequence[Alias], inner: _Functionalizer, block: Block, earlier: int, written: Iterable[Memory]
    ) -> None:
        """Check that what the next iteration reads, its inputs and values from outside, is known after the writes."""
        for memory, writer in self.flows.writes[earlier:]:
            self.flows.write_again(memory, writer, written)
        for alias in (*outside, *map(inner.aliases.of, filter(has_memory, block.inputs))):
            alias.memory.check_known()

    def _memory(self, value: Value) -> Memory:
        return self.aliases.of(value).memory

    def _sharing(
        self, node: Node, block: Block, inner: InheritedAliases, outputs: Sequence[Value]
    ) -> Iterator[tuple[Value, Alias]]:
        """The results that may be a tensor from outside.

        What a loop carries is its initial value in the first iteration; that is unknown once an iteration writes to it.
        """
        results = outputs[1:] if node.op == "prim::Loop" else outputs
        for output, value in zip(node.outputs, results, strict=False):
            outer = self.aliases.known(value) or (None if inner.known(value) else self.aliases.of(value))
            if output.is_tensor and outer is not None:
                yield output, outer
        if node.op == "prim::Loop":
            for entry, first in zip(block.inputs[1:], node.inputs["carried"], strict=False):
                alias = inner.known(entry)
                if alias is not None and alias.memory.version and entry.is_tensor:
                    self.aliases.of(first).memory.unknown_since = alias.memory.writer

    def _contents(self, inputs: dict[str, Argument]) -> dict[str, Argument]:
        content = self.aliases.content
        return {
            name: map_values(argument, content) if isinstance(argument, (Value, list)) else argument
            for name, argument in inputs.items()
        }

    def _view(self, node: Node, source: str) -> None:
        viewed: Value = node.inputs[source]
        alias = self.aliases.of(viewed)
        if is_identity(node, viewed):
            self._bind(node.outputs[0], viewed)
            return
        if node.op not in RESHAPES or not self.layouts.is_contiguous(viewed):
            self.layouts.view(node, source)
        # The source is read when the view is read; the other arguments are read now.
        node.inputs = {source: viewed} | self._contents({k: v for k, v in node.inputs.items() if k != source})
        for output, result in zip(node.outputs, alias.results(View(node, source)), strict=True):
            self.aliases.bind(output, result)

    def _bind(self, value: Value, other: Value) -> None:
        """Note that the value is the same tensor as the other."""
        self.aliases.bind(value, self.aliases.of(other))
        self.layouts.share(value, other)

    def _write(self, node: Node) -> None:
        if node.op in VIEWS_IN_PLACE:
            self._view_in_place(node)
        elif node.op in REBINDS and REBINDS[node.op] in node.inputs:
            self._rebind(node, node.inputs[REBINDS[node.op]])
        elif node.op in WITHOUT_EFFECT and all(out.type == node.inputs["self"].type for out in node.outputs):
            self._rebind(node, node.inputs["self"])
        elif node.op == "aten::copy_":
            self._copy(node)
        elif node.op == "aten::fill_diagonal_" and len(node.inputs["self"].shape) == 2 and not argument(node, "wrap"):
            self._fill_diagonal(node)
        else:
            self._compute(node)

    def _view_in_place(self, node: Node) -> None:
        form = _form(node)
        view = node.like(form.op, node.inputs, node.outputs, overload=form.overload)
        self._view(view, "self")
        self._rebind(node, view.outputs[0])

    def _rebind(self, node: Node, source: Value) -> None:
        for value in (node.inputs["self"], *node.outputs):
            if value is not source:
                self._bind(value, source)

    def _copy(self, node: Node) -> None:
        target: Value = node.inputs["self"]
        source = argument(node, "src")
        if not isinstance(source, Value):
            return self._compute(_as_fill(node))
        if self.aliases.of(target) is not self.aliases.of(source):
            content = self._cast(node, self.aliases.content(source), target)
            self._store(node, target, self._expand(node, content, target))
        for output in node.outputs:
            self._bind(output, target)
        return None

    def _fill_diagonal(self, node: Node) -> None:
        matrix: Value = node.inputs["self"]
        rows, columns = (sizes_at(size, self.captures) for size in matrix.shape)
        diagonal = Value(TensorType(matrix.dtype, (size(map(min, rows, columns)),)))
        view = {"self": matrix, "offset": 0, "dim1": 0, "dim2": 1}
        self._view(node.like("aten::diagonal", view, [diagonal]), "self")
        fill = {"self": diagonal, "value": node.inputs["fill_value"]}
        self._compute(node.like("aten::fill_", fill, (), overload="Scalar"))
        self._rebind(node, matrix)

    def _compute(self, node: Node) -> None:
        form = _form(node)
        targets = [value for name in form.targets for value in values_in(node.inputs[name])]
        if not targets:
            raise ExportError(f"{_where(node)}: {node.full_name} writes to a constant; write to a tensor instead")
        arguments = {form.parameters[name]: value for name, value in node.inputs.items() if name in form.parameters}
        functional = node.like(form.op, self._contents(arguments), (), overload=form.overload)
        functional.inputs |= dtype_of_factory(functional, targets)
        functional.returns_list = isinstance(node.inputs[form.targets[0]], list)
        if form.results:
            return self._store_beside_results(node, functional, targets, form.results)
        captured = node.outputs if len(node.outputs) == len(targets) else [Value(target.type) for target in targets]
        results = [
            _typed(value, dtype) for value, dtype in zip(captured, result_dtypes(functional, targets), strict=True)
        ]
        self._emit(functional, results)
        for target, result in zip(targets, results, strict=True):
            self._store(node, target, self._cast(node, result, target))
        for output, target in zip(node.outputs, targets, strict=False):
            self._bind(output, target)
        return None

    def _store_beside_results(self, node: Node, functional: Node, targets: list[Value], results: int) -> None:
        contents = [Value(target.type) for target in targets]
        masks = [Value(TensorType(torch.bool, node.outputs[0].shape)) for _ in range(results - len(node.outputs))]
        self._emit(functional, [*node.outputs, *masks, *contents])
        for target, content in zip(targets, contents, strict=True):
            self._store(node, target, content)

    def _emit(self, node: Node, outputs: list[Value]) -> None:
        node.outputs = outputs
        for output in outputs:
            output.node = node
        self.emitter.nodes.append(node)

    def _store(self, node: Node, target: Value, content: Value) -> None:
        alias = self.aliases.of(target)
        if content.shape != target.shape and (alias.parent is not None or alias.views):
            raise ExportError(f"{_where(node)}: {node.full_name} resizes a tensor that shares its memory with others")
        self.entangled.write(target)
        self.aliases.write(alias, content, node)
        self.flows.write(alias.memory, node)
        self.choices.spread(alias.memory, node)

    def _cast(self, node: Node, value: Value, target: Value) -> Value:
        if value.dtype == target.dtype:
            return value
        inputs = {"self": value, "dtype": target.dtype, "non_blocking": False, "copy": False, "memory_format": None}
        return self.emitter.add(node, "aten::to", inputs, TensorType(target.dtype, value.shape), overload="dtype")

    def _expand(self, node: Node, value: Value, target: Value) -> Value:
        if value.shape == target.shape:
            return value
        added = len(target.shape) - len(value.shape)
        # -1 keeps an axis as it is, so that only sizes which are new have to be computed.
        sizes = [
            -1 if axis >= added and value.shape[axis - added] == length else self._size(node, target, axis)
            for axis, length in enumerate(target.shape)
        ]
        inputs = {"self": value, "size": sizes, "implicit": False}
        return self.emitter.add(node, "aten::expand", inputs, TensorType(value.dtype, target.shape))

    def _size(self, node: Node, of: Value, axis: int) -> int | Value:
        return self.emitter.size(node, self.aliases.content(of), axis)


def _root(alias: Alias) -> Alias:
    return next(iter([*alias.ancestors()][::-1]), alias)


def _form(node: Node) -> Form:
    form = functional_form(node.op, node.overload)
    if form is None:
        raise ExportError(
            f"{_where(node)}: {node.full_name} writes to its arguments, and torch has no operator that computes the "
            "same without writing. Use operators that return their result."
        )
    return form


def _as_fill(copy: Node) -> Node:
    """A copy of a number onto a tensor, as a fill."""
    number = next(argument for name, argument in copy.inputs.items() if name in ("src", "other"))
    return copy.like("aten::fill_", {"self": copy.inputs["self"], "value": number}, copy.outputs, overload="Scalar")


def _typed(value: Value, dtype: torch.dtype) -> Value:
    """The value if it has this dtype, else a new one with this dtype."""
    return value if value.dtype == dtype else Value(TensorType(dtype, value.shape))


def _where(node: Node) -> str:
    return str(node.source or node.scope or "the model")
