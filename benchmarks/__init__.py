"""Measurements of onnxport against its limits and against other exporters, as ratios within one run."""
