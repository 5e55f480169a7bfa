"""Models that are not exported, each with what ONNX, ONNX Runtime or onnxport lacks for it."""

from __future__ import annotations

KNOWN: dict[str, str] = {
    "mask-rcnn": (
        "Exported and verified at five sizes. Boxes differ by rounding (0.003 of a pixel), and masks are sampled at "
        "those boxes: 25 of 57,600 pixels differ by up to 0.02, more than this table allows."
    ),
    "superpoint": (
        "The points of each image are picked in a Python loop over the batch, another number in each; further loops "
        "go through the lists of them, and Python finds the longest. Refused, with the lines."
    ),
    "vilt": (
        "Patches are chosen image by image in a Python loop over the rows that a mask has, in which Python compares "
        "how many there are. Their order is drawn at random. Refused, with the line."
    ),
}
