"""Pairs of sizes on whose relation a scripted program depends."""

from __future__ import annotations

from onnxport.capture.sizes.size_conditions import SizeCondition
from onnxport.graph.sizes import SizeExpr


def test_which_outcomes_a_condition_misses() -> None:
    sizes = SizeExpr((4, 9))
    assert SizeCondition(sizes, 100).missing() == [1]
    assert SizeCondition(sizes, 2).missing() == [-1]
    assert SizeCondition(sizes, 6).missing() == []
    assert SizeCondition(sizes, SizeExpr((4, 9))).missing() == []
    assert SizeCondition(sizes, 1, "equal").missing() == [1]
    assert SizeCondition(sizes, 9, "equal").missing() == []
    assert SizeCondition(sizes, 1, "above").missing() == [0]
    # Where both sides are equal comes last: there it may make no difference how a condition turns.
    assert list(SizeCondition(sizes, 1, "above").moves(4, 1, 0)) == [[(sizes, 0), (1, 5)], [(sizes, 1), (1, 4)]]
