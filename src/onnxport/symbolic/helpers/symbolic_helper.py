"""Helpers for symbolic functions, with torch's names: parse_args, _scalar, _get_const …"""

from __future__ import annotations

from typing import Any

from onnxport.symbolic.helpers.constants import (
    _get_const,
    _is_constant,
    _is_list,
    _is_none,
    _is_onnx_constant,
    _is_packed_list,
    _is_scalar_list,
    _is_tensor,
    _is_value,
    _maybe_get_const,
    _maybe_get_scalar,
    _node_get,
    _parse_arg,
    _scalar,
    _unpack_list,
    _unpack_tuple,
    parse_args,
    quantized_args,
)
from onnxport.symbolic.helpers.helper import (
    _arange_cast_helper,
    _get_dim_for_cross,
    _get_interpolate_attributes,
    _get_tensor_dim_size,
    _get_tensor_rank,
    _get_tensor_sizes,
    _if_scalar_type_as,
    _interpolate_get_scales,
    _interpolate_helper,
    _is_bool,
    _is_fp,
    _is_in_type_group,
    _onnx_opset_unsupported,
    _onnx_opset_unsupported_detailed,
    _onnx_unsupported,
    _optional_input_placeholder_tensor,
    _reducesum_helper,
    _reshape_helper,
    _set_operator_export_type,
    _set_opset_version,
    _size_helper,
    _slice_helper,
    _sort_helper,
    _squeeze_helper,
    _topk_helper,
    _try_get_scalar_type,
    _type_promote_from_values,
    _unimplemented,
    _unsqueeze_helper,
    export_opset,
)
from onnxport.symbolic.objects import types as _type_utils
from onnxport.symbolic.objects.types import (
    JitScalarType,
    TensorProtoDataType,
    cast_pytorch_to_onnx,
    pytorch_name_to_type,
    scalar_name_to_pytorch,
    scalar_type_to_onnx,
    scalar_type_to_pytorch_type,
)

__all__ = [
    "JitScalarType",
    "TensorProtoDataType",
    "_arange_cast_helper",
    "_default_onnx_opset_version",
    "_get_const",
    "_get_dim_for_cross",
    "_get_interpolate_attributes",
    "_get_tensor_dim_size",
    "_get_tensor_rank",
    "_get_tensor_sizes",
    "_if_scalar_type_as",
    "_interpolate_get_scales",
    "_interpolate_helper",
    "_is_bool",
    "_is_constant",
    "_is_fp",
    "_is_in_type_group",
    "_is_list",
    "_is_none",
    "_is_onnx_constant",
    "_is_packed_list",
    "_is_scalar_list",
    "_is_tensor",
    "_is_value",
    "_maybe_get_const",
    "_maybe_get_scalar",
    "_node_get",
    "_onnx_main_opset",
    "_onnx_master_opset",
    "_onnx_opset_unsupported",
    "_onnx_opset_unsupported_detailed",
    "_onnx_stable_opsets",
    "_onnx_unsupported",
    "_optional_input_placeholder_tensor",
    "_parse_arg",
    "_reducesum_helper",
    "_reshape_helper",
    "_scalar",
    "_set_operator_export_type",
    "_set_opset_version",
    "_size_helper",
    "_slice_helper",
    "_sort_helper",
    "_squeeze_helper",
    "_topk_helper",
    "_try_get_scalar_type",
    "_type_promote_from_values",
    "_type_utils",
    "_unimplemented",
    "_unpack_list",
    "_unpack_tuple",
    "_unsqueeze_helper",
    "cast_pytorch_to_onnx",
    "export_opset",
    "parse_args",
    "pytorch_name_to_type",
    "quantized_args",
    "scalar_name_to_pytorch",
    "scalar_type_to_onnx",
    "scalar_type_to_pytorch_type",
]

# The supported opsets; that of an export is its opset_version.
_onnx_stable_opsets = tuple(range(7, 26))
_onnx_main_opset = _onnx_master_opset = 26
_default_onnx_opset_version = 20


def __getattr__(name: str) -> Any:
    """The opset of the running export, which old symbolic functions read from this module."""
    if name == "_export_onnx_opset_version":
        return export_opset()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
