"""Operators of ONNX that a model calls itself, by ``torch.onnx.ops``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onnxport.lower.builder import Builder
from onnxport.lower.registry import converter
from onnxport.lower.value import Value

# Where the values of an attribute are, by the first letter of its type.
LISTS = {"i": "attr_ints", "f": "attr_floats", "s": "attr_strs"}


@converter("onnx_symbolic::_symbolic")
def symbolic(
    g: Builder, inputs: Sequence[Value | None], op_type: str, domain: str = "", version: int | None = None, **rest: Any
) -> Value:
    """onnx_symbolic::_symbolic(Tensor?[] inputs, str op_type, int onnx_dtype, *, SymInt[] shape, str[] attr_keys, str[] attr_types, int[][] attr_pos, int[] attr_ints, float[] attr_floats, str[] attr_strs, str[] metadata_props_keys, str[] metadata_props_values, str domain='', int? version=None) -> Tensor"""  # noqa: E501
    return _operators(g, inputs, f"{domain}::{op_type}", version, rest)[0]


@converter("onnx_symbolic::_symbolic_multi_out")
def symbolic_multi_out(
    g: Builder, inputs: Sequence[Value | None], op_type: str, domain: str = "", version: int | None = None, **rest: Any
) -> Sequence[Value]:
    """onnx_symbolic::_symbolic_multi_out(Tensor?[] inputs, str op_type, int[] onnx_dtypes, *, SymInt[][] shapes, str[] attr_keys, str[] attr_types, int[][] attr_pos, int[] attr_ints, float[] attr_floats, str[] attr_strs, str[] metadata_props_keys, str[] metadata_props_values, str domain='', int? version=None) -> Tensor[]"""  # noqa: E501
    return _operators(g, inputs, f"{domain}::{op_type}", version, rest)


@converter("onnx::RotaryEmbedding.opset23")
def rotary_embedding(
    g: Builder,
    x: Value,
    cos_cache: Value,
    sin_cache: Value,
    position_ids: Value | None = None,
    interleaved: bool = False,
    num_heads: int = 0,
    rotary_embedding_dim: int = 0,
) -> Value:
    """onnx::RotaryEmbedding.opset23(Tensor x, Tensor cos_cache, Tensor sin_cache, Tensor? position_ids=None, *, bool interleaved=False, SymInt num_heads=0, SymInt rotary_embedding_dim=0) -> Tensor"""  # noqa: E501
    attributes = {"interleaved": interleaved, "num_heads": num_heads, "rotary_embedding_dim": rotary_embedding_dim}
    given: dict[str, Any] = {name: int(number) for name, number in attributes.items() if number}
    result: Value = g.op("RotaryEmbedding", x, cos_cache, sin_cache, position_ids, **given)
    return g.typed(result, x.dtype, g.outputs[0].shape)


@converter("onnx::Attention.opset23")
def attention(
    g: Builder,
    Q: Value,
    K: Value,
    V: Value,
    attn_mask: Value | None = None,
    past_key: Value | None = None,
    past_value: Value | None = None,
    **attributes: Any,
) -> Sequence[Value]:
    """onnx::Attention.opset23(Tensor Q, Tensor K, Tensor V, Tensor? attn_mask=None, Tensor? past_key=None, Tensor? past_value=None, *, bool is_causal=False, SymInt kv_num_heads=0, SymInt q_num_heads=0, SymInt qk_matmul_output_mode=0, float? scale=None, float softcap=0., SymInt? softmax_precision=None) -> (Tensor, Tensor, Tensor, Tensor)"""  # noqa: E501
    given = {name: int(x) if isinstance(x, bool) else x for name, x in attributes.items() if x}
    results = g.op("Attention", Q, K, V, attn_mask, past_key, past_value, outputs=4, **given)
    kinds = [(output.dtype, output.shape) for output in g.outputs]
    return [g.typed(result, *kind) for result, kind in zip(results, kinds, strict=True)]


def _operators(
    g: Builder, inputs: Sequence[Value | None], operator: str, version: int | None, rest: dict[str, Any]
) -> Sequence[Value]:
    attributes = {}
    for key, kind, (begin, end) in zip(rest["attr_keys"], rest["attr_types"], rest["attr_pos"], strict=True):
        content = rest[LISTS[kind[0]]][begin:end]
        attributes[key] = list(content) if kind.endswith("s") and len(kind) > 1 else content[0]
    domain = operator.partition("::")[0]
    if domain and version is not None:
        g.context.domains[domain] = version
    return g.foreign(operator, inputs, [(output.dtype, output.shape) for output in g.outputs], attributes)
