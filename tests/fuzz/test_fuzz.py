"""Random programs: a file is right at every size and on other data, or the user is told, or it is refused.

`make fuzz N=2000 SEED=7` tries more of them.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz.found import FOUND
from tests.fuzz.grow import grown
from tests.fuzz.judge import BAD, RIGHT, judge
from tests.fuzz.program import Program
from tests.fuzz.shrink import shrunk

PROGRAMS = 100
# Programs, by seed and family, whose files are wrong at some size, with what is known of it.
KNOWN = {
    (91, "sizes"): "a loop over a sorted list of sizes that ends at another element at n=33 is taken as in the example",
}
DYNAMIC = pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])


@DYNAMIC
@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_a_random_program_is_right_or_the_user_is_told(seed: int, dynamic: bool, tmp_path: Path) -> None:
    program = grown(seed)
    verdict = judge(program, tmp_path, dynamic=dynamic)
    assert verdict.kind not in BAD, f"{verdict.kind}: {verdict.detail}\n{program.lines} {program.inputs}"


@pytest.mark.parametrize(("seed", "family"), KNOWN)
def test_a_program_that_is_known_to_be_wrong(seed: int, family: str, tmp_path: Path) -> None:
    verdict = judge(grown(seed, family), tmp_path, dynamic=True)
    assert verdict.kind in BAD, "mended: take it out of KNOWN"
    pytest.xfail(KNOWN[seed, family])


@DYNAMIC
@pytest.mark.parametrize("name", FOUND)
def test_a_program_that_was_wrong_is_right(name: str, dynamic: bool, tmp_path: Path) -> None:
    verdict = judge(FOUND[name], tmp_path, dynamic=dynamic)
    assert verdict.kind == RIGHT, f"{verdict.kind}: {verdict.detail}"


def test_a_program_is_shrunk_to_what_matters() -> None:
    program = FOUND["a slice that is empty at size 1"]
    longer = Program("state", program.inputs, ("v = x.clone()", "w = v * 2", "v[1:-1] = 0", "u = w + 1"), ("v", "u"))
    found = shrunk(longer, lambda candidate: "v[1:-1] = 0" in candidate.lines and "v" in candidate.result)
    assert (found.lines, found.result) == (("v[1:-1] = 0",), ("v",))


def test_a_seed_gives_the_same_program_in_every_run() -> None:
    assert [grown(seed) for seed in range(12)] == [grown(seed) for seed in range(12)]
