"""The nodes of a model as nested lists: modules fold; blocks are inside their nodes, functions by themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import onnx_ir as ir

from onnxport.optimize.traversal import subgraphs_of
from onnxport.report.markup import Markup, element, joined
from onnxport.report.origins import Origin, attributes_text, value_text


@dataclass
class Module:
    """A module's nodes and submodules, in the order of their first occurrence."""

    path: str
    items: list[ir.Node | Module] = field(default_factory=list)
    inner: dict[str, Module] = field(default_factory=dict)

    def at(self, path: str) -> Module:
        """The module at a path below this one; it and its parents are created if necessary."""
        module = self
        for part in path.split(".") if path else ():
            if part not in module.inner:
                made = Module(f"{module.path}.{part}" if module.path else part)
                module.inner[part] = made
                module.items.append(made)
            module = module.inner[part]
        return module

    def has(self, name: str | None) -> bool:
        """Whether a node with that name is in it, at any depth."""
        return any(item.has(name) if isinstance(item, Module) else item.name == name for item in self.items)

    def count(self) -> int:
        return sum(item.count() if isinstance(item, Module) else 1 for item in self.items)


class NodeTree:
    """The markup of a model's nodes. ``wrong`` is the name of the first wrong node."""

    def __init__(self, origin: Callable[[ir.Node], Origin], wrong: str | None = None) -> None:
        self._origin = origin
        self._wrong = wrong
        self._taken: set[str] = set()

    def graph(self, nodes: Iterable[ir.Node]) -> Markup:
        root = Module("")
        for node in nodes:
            root.at(self._origin(node).module).items.append(node)
        return self._items(root)

    def function(self, function: ir.Function) -> Markup:
        """A function of the model."""
        nodes = [self._node(node, f"{function.domain}::{function.name}/") for node in function]
        name = element("span", f"{function.domain}::{function.name}", class_="path")
        return element("details", element("summary", "function ", name), element("ol", nodes, class_="nodes"))

    def _items(self, module: Module) -> Markup:
        parts: list[Markup] = []
        run: list[Markup] = []
        for item in module.items:
            if isinstance(item, Module):
                parts += [element("ol", run, class_="nodes")] if run else []
                run = []
                parts.append(self._module(item))
            else:
                run.append(self._node(item))
        parts += [element("ol", run, class_="nodes")] if run else []
        return joined(parts)

    def _module(self, module: Module) -> Markup:
        count = module.count()
        badge = element("span", f"{count} node{'s' if count != 1 else ''}", class_="count")
        summary = element("summary", element("span", module.path, class_="path"), " ", badge)
        shown = self._wrong is not None and module.has(self._wrong)
        return element("details", summary, self._items(module), data_module=module.path, open=shown)

    def _node(self, node: ir.Node, prefix: str = "") -> Markup:
        origin = self._origin(node)
        kind = node.op_type if node.domain in ("", "ai.onnx") else f"{node.domain}::{node.op_type}"
        line = [element("span", kind, class_="op"), " ", element("span", node.name or "", class_="name")]
        inputs = ", ".join((value.name or "") if value is not None else "–" for value in node.inputs)
        outputs = ", ".join(value_text(value) for value in node.outputs)
        line.append(element("div", f"{inputs} → {outputs}", class_="values"))
        attributes = attributes_text(node)
        if attributes:
            line.append(element("div", attributes, class_="attributes"))
        if origin.source is not None:
            at = element("span", origin.source.rpartition("/")[2], class_="at", title=origin.source)
            line.append(element("div", at, " ", element("code", origin.text), class_="source"))
        blocks = [element("ol", [self._node(inner) for inner in graph], class_="block") for graph in subgraphs_of(node)]
        wrong = "wrong" if self._wrong is not None and node.name == self._wrong else None
        return element(
            "li", line, blocks, id=self._id(prefix + (node.name or "")), class_=wrong, data_op=node.op_type,
            data_source=origin.source or "",
        )  # fmt: skip

    def _id(self, name: str) -> str:
        """A unique id: names may be missing or duplicate in other exporters' files."""
        wanted = f"node:{name}"
        number = 1
        while wanted in self._taken:
            number += 1
            wanted = f"node:{name}#{number}"
        self._taken.add(wanted)
        return wanted
