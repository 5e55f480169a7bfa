"""A model in two files: the message, and the data of its large initializers beside it."""

from __future__ import annotations

from typing import BinaryIO

from onnxport.save.layout import Written, write_tensors
from onnxport.save.proto import SplitModel, external_header, initializer_field

_PAGE = 4096
_CACHE_LINE = 64
_PAGE_ALIGNED_FROM = 2**20
"""From this size on a tensor begins on a page, to be mapped into memory; below, that would waste space."""


def write_external(
    split_model: SplitModel,
    file: BinaryIO,
    data_file: BinaryIO,
    location: str,
    written: Written = lambda nbytes: None,
) -> None:
    """Writes the data of the large initializers to `data_file`, and the rest, which names it `location`, to `file`."""
    fields = []
    tensors = []
    end = 0
    for initializer in split_model.large:
        nbytes = initializer.nbytes
        padding = -end % (_PAGE if nbytes >= _PAGE_ALIGNED_FROM else _CACHE_LINE)
        header = external_header(initializer.header, location, end + padding, nbytes)
        fields.append(initializer_field(header.SerializeToString()))
        tensors.append((bytes(padding), initializer.tensor))
        end += padding + nbytes
    file.write(split_model.skeleton(sum(map(len, fields))))
    file.writelines(fields)
    write_tensors(tensors, data_file, written)
