"""Outputs that are lists of tensors, or none: compared element by element, as if each were an output of its own."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from onnxport.verification.sample import Check, Sample


def wrong_lengths(check: Check, sample: Sample, actual: Sequence[Any]) -> list[str]:
    """Problems where the model returns another number of tensors, as a whole or in a list."""
    if len(sample.expected) != len(actual):
        return [f"{len(actual)} outputs instead of the {len(sample.expected)} that the model returns there"]
    absent = [
        f"output {name!r}: the {'model' if expected is None else 'file'} returns None there"
        for name, expected, got in _rows(check, sample, actual)
        if (expected is None) != (got is None)
    ]
    return absent or [
        f"output {name!r}: a list of {len(got)} tensors instead of {len(expected)}"
        for name, expected, got in _rows(check, sample, actual)
        if isinstance(expected, list) and len(expected) != len(got)
    ]


def _rows(check: Check, sample: Sample, actual: Sequence[Any]) -> Iterator[tuple[str, Any, Any]]:
    return zip(check.output_names, sample.expected, actual, strict=True)


def unpacked(check: Check, sample: Sample, actual: Sequence[Any]) -> tuple[Check, Sample, list[torch.Tensor]]:
    """The same with each element of a list as an output of its own."""
    if not any(expected is None or isinstance(expected, list) for _, expected, _ in _rows(check, sample, actual)):
        return check, sample, list(actual)
    outputs = [output for output, expected in enumerate(sample.expected) for _ in _elements(expected)]
    names = [
        f"{name}[{index}]" if isinstance(expected, list) else name
        for name, expected, _ in _rows(check, sample, actual)
        for index, _ in enumerate(_elements(expected))
    ]
    flat_check = dataclasses.replace(
        check,
        output_names=names,
        random_outputs=frozenset(i for i, output in enumerate(outputs) if output in check.random_outputs),
        roundings={i: check.roundings[output] for i, output in enumerate(outputs) if output in check.roundings},
    )
    flat_sample = dataclasses.replace(
        sample,
        expected=flat(sample.expected),
        again=lambda errors: flat(sample.again(errors)),
        truth=lambda: _flat_or_none(sample),
    )
    return flat_check, flat_sample, flat(actual)


def _flat_or_none(sample: Sample) -> list[torch.Tensor] | None:
    truth = sample.truth()
    return flat(truth) if truth is not None else None


def flat(outputs: Sequence[Any]) -> list[torch.Tensor]:
    return [element for output in outputs for element in _elements(output)]


def _elements(output: Any) -> Iterator[torch.Tensor]:
    if output is None:
        return iter(())
    return iter(output) if isinstance(output, list) else iter((output,))
