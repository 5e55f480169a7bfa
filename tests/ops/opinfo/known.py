"""What is known not to work, and why: a row of this table that starts to pass fails the test."""

from __future__ import annotations

from dataclasses import dataclass

from tests.ops.opinfo.samples import DTYPES, MORE_DTYPES

ALL = (*DTYPES, *MORE_DTYPES)


@dataclass(frozen=True)
class Row:
    """An operator that does not pass in these dtypes, as far as it takes them."""

    operator: str
    dtypes: tuple[str, ...]
    reason: str


def _rows(reason: str, operators: dict[str, tuple[str, ...]]) -> list[Row]:
    return [Row(operator, dtypes, reason) for operator, dtypes in operators.items()]


DOUBLE = ("float64",)

ROWS = [
    *_rows(
        "the result is a number or a bool of Python, which is a constant of the trace and no tensor",
        {"allclose": ALL, "broadcast_shapes": ALL, "equal": ALL, "item": ALL},
    ),
    *_rows(
        "sparse tensors: an ONNX graph has dense ones",
        {"sparse.mm.reduce": ALL, "sparse.sampled_addmm": ALL, "to_sparse": ALL},
    ),
    *_rows(
        "complex numbers of half precision are refused: torch itself has hardly an operator for them",
        {"chalf": ALL, "complex": ("float16",), "view_as_complex": ("float16",)},
    ),
    *_rows(
        "eigenvalues of a general matrix: an iteration that ends where the data let it, and vectors up to a phase",
        {"linalg.eig": ALL, "linalg.eigvals": ALL},
    ),
    *_rows(
        "the pivots of LAPACK's symmetric factorisation, which the result lists, depend on the data at each step",
        {"linalg.ldl_factor": ALL, "linalg.ldl_factor_ex": ALL, "linalg.ldl_solve": ALL},
    ),
    *_rows(
        "ONNX Runtime has no AveragePool in double precision",
        {
            "nn.functional.avg_pool1d": DOUBLE,
            "nn.functional.avg_pool2d": DOUBLE,
            "nn.functional.avg_pool3d": DOUBLE,
            "nn.functional.local_response_norm": DOUBLE,
        },
    ),
    *_rows(
        "ONNX Runtime has no Conv and no ConvTranspose in double precision",
        {
            "nn.functional.conv1d": DOUBLE,
            "nn.functional.conv2d": DOUBLE,
            "nn.functional.conv3d": DOUBLE,
            "nn.functional.conv_transpose1d": DOUBLE,
            "nn.functional.conv_transpose2d": DOUBLE,
            "nn.functional.conv_transpose3d": DOUBLE,
        },
    ),
    *_rows(
        "ONNX Runtime merges a factor into the matrix product next to it and keeps it in single precision",
        {
            "addmm": DOUBLE,
            "addmv": DOUBLE,
            "baddbmm": DOUBLE,
            "matrix_exp": DOUBLE,
            "nn.functional.scaled_dot_product_attention": DOUBLE,
        },
    ),
    *_rows(
        "torch rounds images of bytes after each axis, with weights in fixed point; ONNX's Resize computes in floats",
        {
            "_upsample_bilinear2d_aa": ("uint8",),
            "nn.functional.interpolate.bicubic": ("uint8",),
            "nn.functional.interpolate.bilinear": ("uint8",),
            "nn.functional.upsample_bilinear": ("uint8",),
        },
    ),
]


def reason(operator: str, dtype: str) -> str | None:
    """Why an operator does not pass in a dtype, if it does not."""
    return next((row.reason for row in ROWS if row.operator == operator and dtype in row.dtypes), None)
