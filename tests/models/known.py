"""Models that are not exported, each with what ONNX, ONNX Runtime or onnxport lacks for it."""

from __future__ import annotations

KNOWN: dict[str, str] = {
    "faster-rcnn": (
        "The scale of each level of its pyramid is a power of two that is rounded in a tensor and read back, and is "
        "another one at sizes beyond those for which the model resizes its images. Refused, with the values."
    ),
    "fcos": (
        "How many candidates a level has is the smaller of a limit and a number that data decide, which Python "
        "compares: the file has the side that the example took. The check finds it."
    ),
    "keypoint-rcnn": "As faster-rcnn: another path where its resizing does something else. Refused, with both sizes.",
    "mask-rcnn": "As faster-rcnn: another path where its resizing does something else. Refused, with both sizes.",
    "superpoint": (
        "The points of each image are picked in a Python loop over the batch, another number in each; further loops "
        "go through the lists of them, and Python finds the longest. Refused, with the lines."
    ),
    "vilt": (
        "Patches are chosen image by image in a Python loop over the rows that a mask has, in which Python compares "
        "how many there are. Their order is drawn at random. Refused, with the line."
    ),
}
