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
    "qwen3-next": (
        "It goes through the sequence in a Python loop over chunks of 64 tokens: another number of rounds from 65 "
        "tokens on. Refused, with the line."
    ),
    "rt-detr": (
        "The best scores lie at most 2.4e-7 apart, and float32 itself is 7e-7 off; top-k picks among them. torch in "
        "double precision picks others, and is as far from torch in float32 as the file is. The check finds it."
    ),
    "superpoint": (
        "The points of each image are picked in a Python loop over the batch, another number in each. "
        "Refused, with the line."
    ),
    "timm-nfnet": (
        "It amplifies rounding: on some CPUs torch in float32 is further from double precision than the file is, and "
        "the two differ by more than this table allows. The check passes."
    ),
    "unet2d-conditioned": (
        "With heights and widths that are no multiples of its strides it hands sizes to its upsampling layers, and "
        "with large batches it copies before them: four paths, of which no record serves all. Refused."
    ),
    "vilt": (
        "Patches are chosen image by image in a Python loop over the batch. Their order is drawn at random: two calls "
        "of the model do not agree. Refused, with the line."
    ),
}
