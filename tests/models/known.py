"""Models that are not exported, each with what ONNX, ONNX Runtime or onnxport lacks for it."""

from __future__ import annotations

_STRIDED = (
    "Its windows are an `as_strided` over a view, which reads the memory behind it; onnxport knows the memory of whole "
    "tensors only."
)

_PASTED = (
    "What is found in a box is resized to the size of that box in a scripted loop: there, sizes depend on data. "
    "Refused, with the line."
)

KNOWN: dict[str, str] = {
    "bit": "The file is right step by step; ONNX Runtime's own optimisation of its graph changes the result.",
    "funnel": (
        "Positions are counted in Python lists; their number, 2*((n + 1)//2) - 1, is no form that is solved for. "
        "Refused, with the line."
    ),
    "jetmoe": (
        "Tokens are split by a Python list of how many each expert got, which depends on the data. "
        "Refused, with the line."
    ),
    "keypoint-rcnn": _PASTED,
    "led": _STRIDED,
    "llava": "Features are split image by image in Python, so that the batch is unrolled. Refused.",
    "longformer": _STRIDED,
    "mask-rcnn": _PASTED,
    "rt-detr": (
        "The best queries are picked by top-k from scores that lie close together in an untrained model: rounding "
        "decides. No operator is wrong by itself. The check finds it."
    ),
    "superpoint": "The points of each image are picked in a Python loop over the batch. Refused.",
    "switch-transformers": (
        "A Python loop runs over the experts that the example's tokens reach, so others are not in the trace. "
        "The check finds it."
    ),
    "vilt": "Patches are chosen image by image in Python, at random, so that the batch is unrolled. Refused.",
}
