"""The enumerations of the public call."""

from __future__ import annotations

import enum


class TrainingMode(enum.Enum):
    """In which mode the model is exported."""

    EVAL = 0
    PRESERVE = 1
    TRAINING = 2


class OperatorExportTypes(enum.Enum):
    """What operators are written as."""

    ONNX = 0
    ONNX_ATEN = 1
    ONNX_ATEN_FALLBACK = 2
    RAW = 3
    ONNX_FALLTHROUGH = 4


class ExportTypes:
    """What a file could be written as. Only the first is: the others held the same graph in an archive or a folder."""

    PROTOBUF_FILE = "ProtobufFile"
    ZIP_ARCHIVE = "ZipArchive"
    COMPRESSED_ZIP_ARCHIVE = "CompressedZipArchive"
    DIRECTORY = "Directory"
