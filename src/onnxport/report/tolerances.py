"""Tolerances for differences from torch, by dtype. Imports no torch, so that files can be compared without it."""

# The largest error allowed, relative to the largest magnitude in the output.
TOLERANCES: dict[str, float] = {
    "float64": 1e-9,
    "float32": 1e-4,
    "float16": 1e-2,
    "bfloat16": 5e-2,
    # One step between neighbours.
    "float8_e4m3fn": 0.125,
    "float8_e4m3fnuz": 0.125,
    "float8_e5m2": 0.25,
    "float8_e5m2fnuz": 0.25,
}
OTHERWISE = 1e-4

NO_MAGNITUDE = 1e-3
"""The magnitude of results that are zero up to rounding."""
