"""Random programs: a file is right at every size and on other data, or the user is told, or it is refused.

`make fuzz N=2000 SEED=7` tries more of them.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.fuzz.by_hand import RIGHT_PROGRAMS, TOLD_PROGRAMS
from tests.fuzz.found import FOUND
from tests.fuzz.grow import grown
from tests.fuzz.judge import BAD, REFUSED, RIGHT, WARNED, judge
from tests.fuzz.program import Program
from tests.fuzz.shrink import shrunk

PROGRAMS = 100
DYNAMIC = pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])


@DYNAMIC
@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_a_random_program_is_right_or_the_user_is_told(seed: int, dynamic: bool, tmp_path: Path) -> None:
    program = grown(seed)
    verdict = judge(program, tmp_path, dynamic=dynamic)
    assert verdict.kind not in BAD, f"{verdict.kind}: {verdict.detail}\n{program.lines} {program.inputs}"


@DYNAMIC
@pytest.mark.parametrize("name", FOUND)
def test_a_program_that_was_wrong_is_right(name: str, dynamic: bool, tmp_path: Path) -> None:
    verdict = judge(FOUND[name], tmp_path, dynamic=dynamic)
    assert verdict.kind == RIGHT, f"{verdict.kind}: {verdict.detail}"


@DYNAMIC
@pytest.mark.parametrize("name", RIGHT_PROGRAMS)
def test_a_program_written_by_hand_is_right_and_warns_of_nothing(name: str, dynamic: bool, tmp_path: Path) -> None:
    verdict = judge(RIGHT_PROGRAMS[name], tmp_path, dynamic=dynamic)
    assert (verdict.kind, verdict.told) == (RIGHT, ()), verdict.detail


@DYNAMIC
@pytest.mark.parametrize("name", TOLD_PROGRAMS)
def test_what_no_file_can_follow_is_told_with_its_line(name: str, dynamic: bool, tmp_path: Path) -> None:
    program, text = TOLD_PROGRAMS[name]
    verdict = judge(program, tmp_path, dynamic=dynamic)
    assert verdict.kind in (WARNED, REFUSED, RIGHT)
    (told,) = verdict.told
    assert re.search(rf"program\.py:\d+: a tensor that depends on the input was {text}", told)


def test_a_program_is_shrunk_to_what_matters() -> None:
    program = FOUND["a slice that is empty at size 1"]
    longer = Program("state", program.inputs, ("v = x.clone()", "w = v * 2", "v[1:-1] = 0", "u = w + 1"), ("v", "u"))
    found = shrunk(longer, lambda candidate: "v[1:-1] = 0" in candidate.lines and "v" in candidate.result)
    assert (found.lines, found.result) == (("v[1:-1] = 0",), ("v",))


def test_a_seed_gives_the_same_program_in_every_run() -> None:
    assert [grown(seed) for seed in range(12)] == [grown(seed) for seed in range(12)]
