"""Size expressions as text: ``batch*seq``, ``height//2 + 1``, ``min(n, 400)``. They are valid Python."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from onnxport.graph.sizes.canonical import form_of, forms_in_order
from onnxport.graph.sizes.expr import Operand, SizeExpr
from onnxport.graph.sizes.forms import Atom, Sum
from onnxport.graph.sizes.logic import sides
from onnxport.graph.sizes.numeric import COMPARISONS

# Sums of more products, and longer texts, are not readable: such sizes get another name.
MAX_TERMS = 6
LONGEST = 200

Names: TypeAlias = "Callable[[SizeExpr], str | None]"
# A text and its precedence.
Text: TypeAlias = "tuple[str, int]"

CHOICE, LOGIC, COMPARISON, BITS, SUM, TERM, ALONE = range(7)
SIGNS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}
# Binary operators: the sign, its precedence, and the precedence that the left and the right operand need.
INFIX: dict[str, tuple[str, int, int, int]] = {
    "floordiv": ("//", TERM, ALONE, ALONE),
    "mod": (" % ", TERM, ALONE, ALONE),
    "truediv": ("/", TERM, ALONE, ALONE),
    "mul": ("*", TERM, ALONE, ALONE),
    "pow": ("**", TERM, ALONE, ALONE),
    "add": (" + ", SUM, SUM, TERM),
    "sub": (" - ", SUM, SUM, TERM),
    "lshift": (" << ", BITS, ALONE, ALONE),
    "rshift": (" >> ", BITS, ALONE, ALONE),
    **{op: (f" {sign} ", COMPARISON, BITS, BITS) for op, sign in SIGNS.items()},
}
BITWISE = {"and": " & ", "or": " | ", "xor": " ^ "}


def text(expr: Operand, names: Names) -> str | None:
    """The expression with the names of its leaves; None if one has no name, or if the text would be too long."""
    texts: dict[int, Text] = {}
    form = form_of(expr)
    for part in forms_in_order(form):
        found = _sum(part, texts) if isinstance(part, Sum) else _atom(part, texts, names)
        if found is None or len(found[0]) > LONGEST:
            return None
        texts[id(part)] = found
    return texts[id(form)][0]


def _sum(of: Sum, texts: dict[int, Text]) -> Text | None:
    """Positive products come first, the constant last."""
    if len(of.terms) > MAX_TERMS:
        return None
    terms = [
        (not product, factor < 0, -len(product), _product(product, factor, texts))
        for product, factor in of.terms.items()
    ]
    terms.sort()
    if terms and terms[0][1] and not terms[-1][1]:  # 5 - n rather than -n + 5
        terms = [terms[-1], *terms[:-1]]
    if len(terms) == 1 and not terms[0][1]:
        return terms[0][-1]
    written = ""
    for _, is_negative, _, term in terms:
        sign = (" - " if written else "-") if is_negative else " + " if written else ""
        written += sign + _group(term, TERM if written or not is_negative else ALONE)
    return (written, SUM) if written else ("0", ALONE)


def _product(product: Sequence[Atom], factor: int, texts: dict[int, Text]) -> Text:
    if not product:
        return str(abs(factor)), ALONE
    factors = [texts[id(atom)] for atom in product]
    if len(factors) == 1 and abs(factor) == 1:
        return factors[0]
    written = sorted(_group(text, ALONE) for text in factors)
    return "*".join(written if abs(factor) == 1 else [str(abs(factor)), *written]), TERM


def _atom(atom: Atom, texts: dict[int, Text], names: Names) -> Text | None:
    if atom.leaf is not None:
        name = names(atom.leaf)
        return None if name is None else (name, _holds(name))
    if atom.number is not None:
        return str(atom.number), SUM if atom.number < 0 else ALONE
    if atom.op in COMPARISONS and len(atom.parts) == 1:
        return _comparison(atom, texts)
    operands = [texts[id(part)] for part in atom.parts]
    if atom.op == "where":
        condition, left, right = operands
        return f"{_group(left, LOGIC)} if {_group(condition, LOGIC)} else {right[0]}", CHOICE
    if atom.op in INFIX:
        sign, holds, *wanted = INFIX[atom.op]
        return sign.join(_group(part, least) for part, least in zip(operands, wanted, strict=True)), holds
    if atom.op == "neg":
        return f"-{_group(operands[0], ALONE)}", SUM
    if atom.op == "not":
        return f"not {_group(operands[0], COMPARISON)}", LOGIC
    if atom.op in BITWISE:
        if atom.kind is bool and atom.op != "xor":
            return f" {atom.op} ".join(sorted(_group(part, COMPARISON) for part in operands)), LOGIC
        return BITWISE[atom.op].join(sorted(_group(part, ALONE) for part in operands)), BITS
    written = [part for part, _ in operands]
    return f"{atom.op}({', '.join(_in_order(atom, written))})", ALONE


def _in_order(atom: Atom, written: list[str]) -> list[str]:
    """The operands of a minimum or maximum, numbers last."""
    if atom.op not in ("min", "max"):
        return written
    return sorted(written, key=lambda text: (text.lstrip("-").isdigit(), text))


def _comparison(atom: Atom, texts: dict[int, Text]) -> Text | None:
    op, left, right = sides(atom)
    written = _sum(left, texts), _sum(right, texts)
    if written[0] is None or written[1] is None:
        return None
    return f"{_group(written[0], BITS)} {SIGNS[op]} {_group(written[1], BITS)}", COMPARISON


def _holds(name: str) -> int:
    """The precedence of a name, which may be an expression itself."""
    if name.isidentifier():
        return ALONE
    return SUM if any(sign in name for sign in " +-") else TERM


def _group(text: Text, least: int) -> str:
    written, holds = text
    return written if holds >= least else f"({written})"
