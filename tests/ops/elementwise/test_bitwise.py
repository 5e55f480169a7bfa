"""Bitwise operators."""

from __future__ import annotations

import torch

from tests.ops.harness import INTEGERS, B, Case, F, I, table

PAIR = [F("n", 5, low=-90, high=90), F("n", 5, low=-90, high=90)]
MASKS = [B("n", 5), B("n", 5)]
SHIFT = [F("n", 5, low=-90, high=90), F("n", 5, low=0, high=7)]


def whole(id: str, call: object, inputs: object, **settings: object) -> Case:
    """A case in all integer types."""
    return Case(id, call, inputs, base=torch.int64, dtypes=INTEGERS, **settings)  # type: ignore[arg-type]


CASES = [
    Case("and_bool", torch.bitwise_and, MASKS, dtypes=(), graph=["And"]),
    Case("or_bool", lambda x, y: x | y, MASKS, dtypes=(), graph=["Or"]),
    Case("xor_bool", lambda x, y: x ^ y, MASKS, dtypes=(), graph=["Xor"]),
    Case("not_bool", lambda x: ~x, [B("n", 5)], dtypes=(), graph=["Not"]),
    whole("and", torch.bitwise_and, PAIR, graph=["BitwiseAnd"]),
    whole("and_number", lambda x: x & 5, [F("n", 5, low=-90, high=90)]),
    whole("and_low_bits", lambda x: x & 7, [F("n", 5, low=-90, high=90)]),
    whole("rand", lambda x: 5 & x, [F("n", 5, low=-90, high=90)]),
    whole("or", lambda x, y: x | y, PAIR),
    whole("xor", lambda x, y: x ^ y, PAIR),
    whole("not", lambda x: ~x, [F("n", 5, low=-90, high=90)], graph=["BitwiseNot"]),
    whole("in_place", lambda x, y: x.bitwise_and_(y), PAIR),
    Case("in_place_bool", lambda x, y: x.logical_or_(y).__iand__(y), MASKS, dtypes=()),
    Case("mixed", lambda x, y: x & y, [B("n", 5), I("n", 5)], dtypes=()),
    whole("left", lambda x: x << 2, [F("n", 5, low=-90, high=90)], graph=["Mul"]),
    whole("left_tensor", torch.bitwise_left_shift, SHIFT),
    whole("left_of_number", lambda x: 3 << x, [F("n", 5, low=0, high=6)]),
    whole("right", lambda x: x >> 2, [F("n", 5, low=-90, high=90)]),
    whole("right_far", lambda x: x >> 70, [F("n", 5, low=0, high=90)], since=11),
    whole("right_tensor", torch.bitwise_right_shift, SHIFT),
    Case("size", lambda x: x[: (x.shape[0] >> 1) + 1], [F("t", 5)], dynamic_since=10),
]

test_bitwise = table(CASES)
