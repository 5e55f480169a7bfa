"""The text of sizes that follow from named axes: ``batch*seq``, ``height//2 + 1``."""

from __future__ import annotations

from onnxport.graph.dims import ROOT, Dim, Size

# A sum of products: each product of names, in order, with its factor. The empty product is the constant.
Sum = dict[tuple[str, ...], int]
# What is longer than a sum of these many products says nothing to a reader.
MOST_TERMS = 6


class Labels:
    """The sizes that have a name, as sums; what a division rounds down is one name, remembered with its parts."""

    def __init__(self, axes: dict[Dim, str]) -> None:
        self._sums: dict[Dim, Sum] = {dim: {(name,): 1} for dim, name in axes.items()}
        self._texts: dict[Dim, str] = dict(axes)
        self._quotients: dict[str, tuple[Sum, int]] = {}

    def __contains__(self, dim: Dim) -> bool:
        return dim in self._sums

    def learn(self, dim: Dim, made: Size) -> bool:
        """Take what is known of how a size is computed for its name; whether that gives one."""
        found = self._sum(made)
        if found is None or len(found) > MOST_TERMS:
            return False
        self._sums[dim] = found
        self._texts[dim] = _text(found)
        return True

    def text(self, dim: Dim) -> str | None:
        return self._texts.get(dim)

    def _sum(self, size: Size) -> Sum | None:
        if isinstance(size, int):
            return {(): size} if size else {}
        if size in self._sums:
            return self._sums[size]
        if size.how is None:
            return None
        operator, *operands = size.how
        left, right = (self._sum(operand) for operand in operands)
        if left is None or right is None or len(left) > MOST_TERMS or len(right) > MOST_TERMS:
            return None
        return self._combined(operator, left, right)

    def _combined(self, operator: str, left: Sum, right: Sum) -> Sum | None:
        if operator in ("Add", "Sub"):
            return _added(left, right, -1 if operator == "Sub" else 1)
        if operator == "Mul":
            return _multiplied(left, right)
        if operator == "Div":
            return self._divided(left, right)
        if operator == ROOT:
            return {(f"isqrt({_text(left)})",): 1}
        if operator == "Mod":
            return {(f"{_group(left)} % {_group(right)}",): 1}
        return {(f"{operator.lower()}({_text(left)}, {_text(right)})",): 1}

    def _divided(self, left: Sum, right: Sum) -> Sum | None:
        """The quotient rounded down. What the divisor divides goes before the division."""
        if len(right) != 1:
            return {(f"{_group(left)}//{_group(right)}",): 1} if right else None
        ((names, divisor),) = right.items()
        if names:
            return _shared(left, names, divisor) or {(f"{_group(left)}//{_group(right)}",): 1}
        if divisor < 0:
            return None
        outside = {of: factor // divisor for of, factor in left.items() if factor % divisor == 0 or not of}
        inside = _added(left, {of: factor * divisor for of, factor in outside.items()}, -1)
        if not set(inside) - {()}:
            return {of: factor for of, factor in outside.items() if factor}
        inside, divisor = self._flat(inside, divisor)
        name = f"{_group(inside)}//{divisor}"
        self._quotients[name] = inside, divisor
        return _added({(name,): 1}, outside, 1)

    def _flat(self, inside: Sum, divisor: int) -> tuple[Sum, int]:
        """(x//a + c)//b is (x + c*a)//(a*b)."""
        others = [names for names in inside if names]
        inner = self._quotients.get(others[0][0]) if len(others) == 1 and len(others[0]) == 1 else None
        if inner is None or inside[others[0]] != 1:
            return inside, divisor
        return _added(inner[0], {(): inside.get((), 0) * inner[1]}, 1), divisor * inner[1]


def _added(left: Sum, right: Sum, sign: int) -> Sum:
    found = dict(left)
    for names, factor in right.items():
        found[names] = found.get(names, 0) + sign * factor
    return {names: factor for names, factor in found.items() if factor}


def _multiplied(left: Sum, right: Sum) -> Sum:
    product: Sum = {}
    for names, factor in left.items():
        scaled = {tuple(sorted((*names, *others))): factor * other for others, other in right.items()}
        product = _added(product, scaled, 1)
    return product


def _shared(left: Sum, names: tuple[str, ...], divisor: int) -> Sum | None:
    """The sum without a factor that all of its products have; None if they do not."""
    found: Sum = {}
    for product, factor in left.items():
        rest = list(product)
        for name in names:
            if name not in rest:
                return None
            rest.remove(name)
        if factor % divisor:
            return None
        found[tuple(rest)] = factor // divisor
    return found


def _group(of: Sum) -> str:
    text = _text(of)
    return text if text.isidentifier() or text.isdigit() else f"({text})"


def _text(of: Sum) -> str:
    parts: list[str] = []
    for names, factor in sorted(of.items(), key=lambda item: (not item[0], item[1] < 0)):
        alone = len(names) == 1 and abs(factor) == 1
        product = "*".join(name if alone or name.isidentifier() else f"({name})" for name in names)
        size = abs(factor)
        term = str(size) if not names else product if size == 1 else f"{size}*{product}"
        sign = ("- " if parts else "-") if factor < 0 else "+ " if parts else ""
        parts.append(sign + term)
    return " ".join(parts) or "0"
