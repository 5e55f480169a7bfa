"""The enumerations of the public call."""

from __future__ import annotations

import enum


class TrainingMode(enum.Enum):
    """The mode in which the model is exported."""

    EVAL = 0
    PRESERVE = 1
    TRAINING = 2


class OperatorExportTypes(enum.Enum):
    """How operators are written."""

    ONNX = 0
    ONNX_ATEN = 1
    ONNX_ATEN_FALLBACK = 2
    RAW = 3
    ONNX_FALLTHROUGH = 4


class ExportTypes:
    """The formats of torch's old exporter. Only the first is supported: the others were archives or folders."""

    PROTOBUF_FILE = "ProtobufFile"
    ZIP_ARCHIVE = "ZipArchive"
    COMPRESSED_ZIP_ARCHIVE = "CompressedZipArchive"
    DIRECTORY = "Directory"
