"""Each difference that docs/operators.md names is one, and the document names each."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
import torch

import onnxport
from onnxport.verification.runtime import Session
from tests.ops.opinfo.differences import DIFFERENCES, NAN_ORDER, Difference, section

DOCUMENT = Path(__file__).parents[3] / "docs" / "operators.md"


@pytest.mark.parametrize("row", DIFFERENCES, ids=[row.operators for row in DIFFERENCES])
def test_the_file_differs(row: Difference) -> None:
    target = io.BytesIO()
    names = [f"x{i}" for i in range(len(row.inputs))]
    opset = 10 if "before opset" in row.operators else 20
    onnxport.export(row.call, row.inputs, target, input_names=names, opset_version=opset, verify=False)
    (actual,) = Session(target.getvalue()).run(dict(zip(names, row.inputs, strict=True)))
    assert not torch.equal(actual, row.call(*row.inputs)), "mended: take the row out"


def test_the_document_has_them() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    assert "\n".join(section()) in text
    assert "\n".join(NAN_ORDER) in text
