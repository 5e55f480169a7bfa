"""The content of small integer tensors at each point, for nodes that users write: sizes and their arithmetic."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import onnx
import onnx_ir as ir
import torch

from onnxport.graph.sizes import Shape, values
from onnxport.lower.value import Value

# Inference reads the content of shapes, axes and similar inputs.
READABLE = (torch.int64, torch.int32, torch.float32)
MAX_ELEMENTS = 1024
# Operators that compute with shapes.
FOLLOWED = frozenset(
    [
        "Shape",
        "Gather",
        "Slice",
        "Concat",
        "Unsqueeze",
        "Squeeze",
        "Cast",
        "Identity",
        "Reshape",
        "Add",
        "Sub",
        "Mul",
        "Div",
    ]
)

Content = npt.NDArray[np.generic]


class Contents:
    """The known contents of the values of one symbolic function."""

    def __init__(self, captures: int) -> None:
        self._captures = captures
        self._known: dict[ir.Value, tuple[Content, ...]] = {}

    def at(self, value: Value, capture: int) -> Content | None:
        if value.data is not None:
            small = value.data.dtype in READABLE and value.data.numel() <= MAX_ELEMENTS
            return value.data.detach().cpu().numpy() if small else None
        if value.ir is not None and value.ir in self._known:
            return self._known[value.ir][capture]
        return None

    def note(self, node: ir.Node, inputs: Sequence[Value | None], opset: int) -> None:
        """Compute the contents of a new node's outputs, if it computes with sizes."""
        if node.op_type not in FOLLOWED or not node.outputs:
            return
        if node.op_type == "Shape":
            shape = None if inputs[0] is None else inputs[0].shape
            found = None if shape is None else self._shape(node, shape)
        else:
            found = self._computed(node, inputs, opset)
        if found is not None:
            self._known[node.outputs[0]] = found

    def _shape(self, node: ir.Node, shape: Shape) -> tuple[Content, ...]:
        bounds = [node.attributes[name].as_int() if name in node.attributes else None for name in ("start", "end")]
        part = shape[slice(*bounds)]
        return tuple(np.array([values(d, self._captures)[k] for d in part], np.int64) for k in range(self._captures))

    def _computed(self, node: ir.Node, inputs: Sequence[Value | None], opset: int) -> tuple[Content, ...] | None:
        from onnx.reference import ReferenceEvaluator  # noqa: PLC0415

        present = [value for value in inputs if value is not None]
        if len(present) < len(inputs) or all(value.data is not None for value in present):
            return None
        proto = ir.serde.serialize_node(node)
        names = list(dict.fromkeys(proto.input))
        results = []
        for capture in range(self._captures):
            feeds = dict(zip(proto.input, (self.at(value, capture) for value in present), strict=True))
            if any(content is None or content.dtype.kind != "i" for content in feeds.values()):
                return None
            entries = [onnx.helper.make_tensor_value_info(n, onnx.TensorProto.UNDEFINED, None) for n in names]
            exit_ = onnx.helper.make_tensor_value_info(proto.output[0], onnx.TensorProto.UNDEFINED, None)
            graph = onnx.helper.make_graph([proto], "one", entries, [exit_])
            model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_operatorsetid("", opset)])
            (result,) = ReferenceEvaluator(model).run(None, feeds)
            results.append(np.asarray(result))
        return tuple(results)
