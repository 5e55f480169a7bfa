"""Weights that are in safetensors files: read where they are, put in the places of a model's, referred to by the file.

In: the path of a file or folder. Out: a `Checkpoint`, whose tensors are the mapped memory of its files.
"""

from onnxport.save.checkpoint.files import Checkpoint, open_checkpoint
from onnxport.save.checkpoint.filling import filled_from

__all__ = ["Checkpoint", "filled_from", "open_checkpoint"]
