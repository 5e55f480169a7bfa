"""Models that are not exported, each with what ONNX, ONNX Runtime or onnxport lacks for it."""

from __future__ import annotations

KNOWN: dict[str, str] = {
    "keypoint-rcnn": (
        "Where an image has no boxes at all Python takes another path, which data decide: the file has the path of the "
        "example, and the check, which also runs at 2 x 2, finds it."
    ),
    "mask-rcnn": (
        "Masks are pasted in a loop over the boxes, at places rounded to whole pixels: at 1 x 1 the file pastes a mask "
        "of another size. The check finds it."
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
