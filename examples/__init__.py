"""Models that onnxport is shown and measured on, with random weights."""
