"""docs/models.md, from the verdicts of a run."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib.metadata import version

from tests.models.judge import SIZES, Verdict
from tests.models.known import KNOWN

PACKAGES = ("torch", "transformers", "diffusers", "timm", "torchvision")


def shown(detail: str) -> str:
    """An error's own words on one line, with the files of packages named from there."""
    return re.sub(r"/\S*/site-packages/", "", " ".join(detail.split()))[:400]


def document(verdicts: Sequence[Verdict]) -> str:
    passed = sum(verdict.passed for verdict in verdicts)
    versions = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    lines = [
        "# Models", "",
        "What `make models` found. Each architecture is built from a configuration with random weights, exported with",
        f"the axes that vary naturally as dynamic axes, and compared with torch in ONNX Runtime at {SIZES} sizes or",
        "more. A model is right when all of them agree. Nothing in the package knows any of these models. This file is",
        "generated.", "",
        f"**{passed} of {len(verdicts)} right** ({100 * passed / max(len(verdicts), 1):.1f} %), with {versions}.", "",
        "| model | family | verdict | seconds | nodes | largest error |", "|---|---|---|---|---|---|",
    ]  # fmt: skip
    lines += [
        f"| {v.name} | {v.family} | {v.kind} | {v.seconds:.1f} | {v.nodes or ''} | {v.error:.1e} |"
        if v.passed else f"| {v.name} | {v.family} | {v.kind} | {v.seconds:.1f} | | |"
        for v in sorted(verdicts, key=lambda v: (v.family, v.name))
    ]  # fmt: skip
    failed = [verdict for verdict in verdicts if not verdict.passed]
    if failed:
        lines += ["", "## What is not right, and why", ""]
        lines += [f"- **{v.name}**: {KNOWN.get(v.name) or shown(v.detail)}" for v in failed]
    return "\n".join(lines) + "\n"
