"""Models of standard operators and operators of torch: in pieces, on shared memory, with control flow and errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import nn

import onnxport
from onnxport import BackendError, backend

ATEN = "org.pytorch.aten"


def aten(
    operator: str, inputs: list[str], outputs: list[str], arguments: list[str], **attributes: Any
) -> onnx.NodeProto:
    overload = attributes.pop("overload", "")
    return helper.make_node(
        "ATen", inputs, outputs, name=f"{operator}_{outputs[0]}", domain=ATEN, operator=operator,
        overload_name=overload, tensor_arguments=arguments, **attributes,
    )  # fmt: skip


def relu(source: str, target: str) -> onnx.NodeProto:
    return aten("relu", [source], [target], ["self"])


def model(
    nodes: list[onnx.NodeProto],
    inputs: dict[str, int],
    outputs: list[str],
    initializers: dict[str, Any] | None = None,
    functions: list[onnx.FunctionProto] | None = None,
) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info(name, kind, None) for name, kind in inputs.items()],
        [onnx.ValueInfoProto(name=name) for name in outputs],
        [numpy_helper.from_array(array, name) for name, array in (initializers or {}).items()],
    )
    imports = [helper.make_opsetid("", 20), helper.make_opsetid(ATEN, 1), helper.make_opsetid("f", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10, functions=functions or [])


def add(left: str, right: str, target: str) -> onnx.NodeProto:
    return helper.make_node("Add", [left, right], [target])


X = np.array([[-1.0, 2.0, -3.0]], np.float32)


# Pieces


def test_nodes_on_both_sides_of_torch_make_two_pieces() -> None:
    nodes = [
        add("x", "x", "a"),
        helper.make_node("Neg", ["a"], ["b"]),
        relu("b", "c"),
        add("c", "a", "d"),
        add("d", "d", "y"),
    ]
    rep = backend.prepare(model(nodes, {"x": TensorProto.FLOAT}, ["y"]))
    assert rep.pieces == 2
    (y,) = rep.run([X])
    np.testing.assert_array_equal(y, 2 * (np.maximum(-2 * X, 0) + 2 * X))


def test_a_branch_beside_torch_joins_the_piece_after_it() -> None:
    """What does not depend on torch is computed together with what does, not before."""
    nodes = [relu("x", "a"), helper.make_node("Neg", ["x"], ["b"]), add("a", "b", "y")]
    assert backend.prepare(model(nodes, {"x": TensorProto.FLOAT}, ["y"])).pieces == 1


def test_independent_operators_of_torch_do_not_cut_the_model_apart() -> None:
    nodes = [
        add("x", "x", "a"),
        *(relu("a", f"r{i}") for i in range(5)),
        helper.make_node("Sum", [f"r{i}" for i in range(5)], ["y"]),
    ]
    rep = backend.prepare(model(nodes, {"x": TensorProto.FLOAT}, ["y"]))
    assert rep.pieces == 2
    np.testing.assert_array_equal(rep.run(X)[0], 5 * np.maximum(2 * X, 0))


def test_types_that_the_model_does_not_declare_are_seen_at_run_time() -> None:
    """A piece behind torch gets whatever dtype torch makes."""
    nodes = [relu("x", "a"), helper.make_node("Neg", ["a"], ["y"])]
    proto = model(nodes, {"x": TensorProto.FLOAT}, ["y"])
    proto.graph.input[0].type.tensor_type.elem_type = TensorProto.DOUBLE
    (y,) = backend.run_model(proto, X.astype(np.float64))
    assert y.dtype == np.float64


def test_memory_is_shared_between_torch_and_the_runtime() -> None:
    """torch reads the input and a piece's result where they lie."""
    seen: list[int] = []
    lib = torch.library.Library("backend_memory", "FRAGMENT")
    lib.define("spy(Tensor a) -> Tensor")

    def spy(a: torch.Tensor) -> torch.Tensor:
        seen.append(a.data_ptr())
        return a + 0

    lib.impl("spy", spy, "CompositeExplicitAutograd")
    spies = [helper.make_node("spy", [source], [f"{source}_seen"], domain="backend_memory") for source in ("x", "a")]
    try:
        array = np.ones((64, 64), np.float32)
        rep = backend.prepare(model([add("x", "x", "a"), *spies], {"x": TensorProto.FLOAT}, ["x_seen", "a_seen", "a"]))
        a = rep.run([array])[2]
        assert sorted(seen) == sorted([array.ctypes.data, a.ctypes.data])
    finally:
        lib._destroy()


def test_results_do_not_change_with_the_next_run() -> None:
    nodes = [add("x", "x", "a"), relu("a", "b"), helper.make_node("Neg", ["b"], ["y"])]
    rep = backend.prepare(model(nodes, {"x": TensorProto.FLOAT}, ["y", "b"]))
    first = rep.run([X])
    kept = [value.copy() for value in first]
    rep.run([X * 5])
    for value, copy in zip(first, kept, strict=True):
        np.testing.assert_array_equal(value, copy)


def test_a_result_is_no_view_of_the_input_or_a_weight() -> None:
    nodes = [
        aten("view", ["x"], ["y"], ["self"], size=[3]),
        aten("view", ["w"], ["z"], ["self"], size=[2]),
    ]
    proto = model(nodes, {"x": TensorProto.FLOAT}, ["y", "z"], {"w": np.ones((1, 2), np.float32)})
    rep = backend.prepare(proto)
    array = X.copy()
    y, z = rep.run([array])
    y += 1
    z += 1
    np.testing.assert_array_equal(array, X)
    np.testing.assert_array_equal(rep.run([array])[1], [1, 1])


def test_weights_are_used_by_both_sides() -> None:
    weight = np.random.default_rng(0).normal(size=(300, 300)).astype(np.float32)
    nodes = [aten("mm", ["x", "w"], ["a"], ["self", "mat2"]), helper.make_node("MatMul", ["a", "w"], ["y"])]
    x = np.random.default_rng(1).normal(size=(2, 300)).astype(np.float32)
    (y,) = backend.run_model(model(nodes, {"x": TensorProto.FLOAT}, ["y"], {"w": weight}), x)
    np.testing.assert_allclose(y, x @ weight @ weight, rtol=1e-3, atol=1e-2)


def test_empty_tensors_scalars_and_bools_pass_between() -> None:
    nodes = [
        aten("gt", ["x"], ["a"], ["self"], overload="Scalar", other=0.5),
        helper.make_node("Not", ["a"], ["b"]),
        aten("sum", ["b"], ["c"], ["self"]),
        helper.make_node("Neg", ["c"], ["y"]),
    ]
    rep = backend.prepare(model(nodes, {"x": TensorProto.FLOAT}, ["y", "b"]))
    for array in (X, X[:, :0], np.float32(3) * np.ones((), np.float32)):
        y, b = rep.run([array])
        np.testing.assert_array_equal(b, ~(array > 0.5))
        assert y == -(~(array > 0.5)).sum() and y.dtype == np.int64


# Control flow


def branch(name: str, nodes: list[onnx.NodeProto], result: str) -> onnx.GraphProto:
    return helper.make_graph(nodes, name, [], [onnx.ValueInfoProto(name=result)])


def test_branches_with_torch_inside_read_the_values_around_them() -> None:
    then = branch("then", [relu("a", "t1"), add("t1", "w", "t")], "t")
    otherwise = branch("else", [helper.make_node("Neg", ["a"], ["e"])], "e")
    nodes = [add("x", "x", "a"), helper.make_node("If", ["c"], ["y"], then_branch=then, else_branch=otherwise)]
    proto = model(nodes, {"x": TensorProto.FLOAT, "c": TensorProto.BOOL}, ["y"], {"w": np.float32([10])})
    rep = backend.prepare(proto)
    np.testing.assert_array_equal(rep.run([X, np.array(True)])[0], np.maximum(2 * X, 0) + 10)
    np.testing.assert_array_equal(rep.run([X, np.array(False)])[0], -2 * X)


def loop(limit: str, condition: str, stop: float) -> onnx.ModelProto:
    body = helper.make_graph(
        [
            aten("add", ["state", "state"], ["next"], ["self", "other"], overload="Tensor"),
            helper.make_node("ReduceMax", ["next"], ["largest"], keepdims=0),
            helper.make_node("Less", ["largest", "stop"], ["go"]),
            helper.make_node("Identity", ["next"], ["scan"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("turn", TensorProto.INT64, []),
            helper.make_tensor_value_info("going", TensorProto.BOOL, []),
            helper.make_tensor_value_info("state", TensorProto.FLOAT, None),
        ],
        [
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("next", TensorProto.FLOAT, None),
            helper.make_tensor_value_info("scan", TensorProto.FLOAT, [1, 3]),
        ],
        [numpy_helper.from_array(np.float32(stop), "stop")],
    )
    inputs = {"x": TensorProto.FLOAT}
    if limit:
        inputs[limit] = TensorProto.INT64
    if condition:
        inputs[condition] = TensorProto.BOOL
    node = helper.make_node("Loop", [limit, condition, "x"], ["y", "all"], body=body)
    return model([node], inputs, ["y", "all"])


def test_loops_with_torch_inside() -> None:
    rep = backend.prepare(loop("n", "", 100.0))
    for count in (0, 1, 3):
        y, every = rep.run([X, np.int64(count)])
        np.testing.assert_array_equal(y, X * 2**count)
        assert every.shape == (count, 1, 3) and every.dtype == np.float32


def test_loops_end_by_their_condition() -> None:
    y, every = backend.prepare(loop("", "c", 10.0)).run([X, np.array(True)])
    assert len(every) == 3 and y.max() == 16
    y, every = backend.prepare(loop("", "c", 10.0)).run([X, np.array(False)])
    assert len(every) == 0


def test_other_control_flow_with_torch_inside_is_refused() -> None:
    body = helper.make_graph(
        [relu("i", "o")], "body", [helper.make_tensor_value_info("i", 1, None)], [onnx.ValueInfoProto(name="o")]
    )
    node = helper.make_node("Scan", ["x"], ["y"], name="scan", body=body, num_scan_inputs=1)
    with pytest.raises(BackendError, match=r"'scan'.*not inside Scan"):
        backend.prepare(model([node], {"x": TensorProto.FLOAT}, ["y"]))


def test_functions_with_torch_inside() -> None:
    function = helper.make_function(
        "f", "F", ["a"], ["c"], [relu("a", "b"), add("b", "b", "c")],
        [helper.make_opsetid("", 20), helper.make_opsetid(ATEN, 1)],
    )  # fmt: skip
    nodes = [helper.make_node("F", ["x"], ["y"], domain="f"), helper.make_node("F", ["y"], ["z"], domain="f")]
    (z,) = backend.run_model(model(nodes, {"x": TensorProto.FLOAT}, ["z"], functions=[function]), X)
    np.testing.assert_array_equal(z, 4 * np.maximum(X, 0))


# Values on request


@pytest.mark.parametrize("with_torch", [True, False])
def test_intermediate_values_on_request(with_torch: bool) -> None:
    middle = relu("a", "b") if with_torch else helper.make_node("Relu", ["a"], ["b"])
    rep = backend.prepare(model([add("x", "x", "a"), middle, add("b", "b", "y")], {"x": TensorProto.FLOAT}, ["y"]))
    b, a = rep.run([X], outputs=["b", "a"])
    np.testing.assert_array_equal(a, 2 * X)
    np.testing.assert_array_equal(b, np.maximum(2 * X, 0))
    with pytest.raises(BackendError, match="no value 'nothing'"):
        rep.run([X], outputs=["nothing"])


def test_intermediate_values_of_an_exported_model() -> None:
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)).eval()
    proto = onnxport.export(net, torch.randn(2, 3)).model_proto
    x = torch.randn(2, 3)
    (hidden,) = backend.prepare(proto).run([x.numpy()], outputs=["1/Relu"])
    np.testing.assert_allclose(hidden, net[:2](x).detach().numpy(), rtol=1e-5, atol=1e-6)


# How models and inputs are given


def test_models_as_message_bytes_and_path(tmp_path: Path) -> None:
    proto = model([relu("x", "y")], {"x": TensorProto.FLOAT}, ["y"])
    path = tmp_path / "m.onnx"
    path.write_bytes(proto.SerializeToString())
    for given in (proto, proto.SerializeToString(), path, str(path)):
        np.testing.assert_array_equal(backend.run_model(given, X)[0], np.maximum(X, 0))
    for wrong in (b"no model", b"", tmp_path / "missing.onnx", 3):
        with pytest.raises(BackendError):
            backend.prepare(wrong)


def test_inputs_as_array_list_and_dict() -> None:
    rep = backend.prepare(model([relu("x", "a"), add("a", "z", "y")], {"x": 1, "z": 1}, ["y"]))
    expected = np.maximum(X, 0) + 1
    one = np.ones_like(X)
    for inputs in ((X, one), [X, one], {"z": one, "x": X}, (torch.from_numpy(X), torch.from_numpy(one))):
        np.testing.assert_array_equal(rep.run(inputs)[0], expected)
    for wrong, match in ((X, "1 inputs"), ({"x": X}, "'z' is missing"), ({"x": X, "q": X, "z": X}, "no input 'q'")):
        with pytest.raises(BackendError, match=match):
            rep.run(wrong)


def test_element_types_that_numpy_lacks() -> None:
    array = np.array([1.5, -2.0], ml_dtypes.bfloat16)
    for nodes in ([aten("clone", ["x"], ["y"], ["self"])], [helper.make_node("Identity", ["x"], ["y"])]):
        (y,) = backend.run_model(model(nodes, {"x": TensorProto.BFLOAT16}, ["y"]), array)
        assert y.dtype == ml_dtypes.bfloat16
        np.testing.assert_array_equal(y.astype(np.float32), [1.5, -2])


def save_external(path: Path, location: str, nodes: list[onnx.NodeProto]) -> np.ndarray[Any, Any]:
    weight = np.arange(3, dtype=np.float32)
    proto = model(nodes, {"x": TensorProto.FLOAT}, ["y"], {"w": weight})
    tensor = proto.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=location)
    path.write_bytes(proto.SerializeToString())
    return weight


BOTH = [[add("x", "w", "y")], [aten("add", ["x", "w"], ["y"], ["self", "other"], overload="Tensor")]]


@pytest.mark.parametrize("nodes", BOTH, ids=["runtime", "torch"])
def test_external_data_in_the_models_folder(tmp_path: Path, nodes: list[onnx.NodeProto]) -> None:
    weight = save_external(tmp_path / "m.onnx", "m.data", nodes)
    (tmp_path / "m.data").write_bytes(weight.tobytes())
    np.testing.assert_array_equal(backend.run_model(tmp_path / "m.onnx", X)[0], X + weight)
    with pytest.raises(BackendError, match="pass the model as a path"):
        backend.prepare((tmp_path / "m.onnx").read_bytes())


@pytest.mark.parametrize("nodes", BOTH, ids=["runtime", "torch"])
@pytest.mark.parametrize("location", ["../secret", "inner/../../secret", "ABSOLUTE", "link", "missing", ""])
def test_external_data_may_not_reach_outside(tmp_path: Path, location: str, nodes: list[onnx.NodeProto]) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "secret").write_bytes(bytes(12))
    (folder / "link").symlink_to(tmp_path / "secret")
    where = str(tmp_path / "secret") if location == "ABSOLUTE" else location
    save_external(folder / "m.onnx", where, nodes)
    with pytest.raises(BackendError, match=r"model's folder"):
        backend.prepare(folder / "m.onnx")


# The interface of a backend


def test_single_nodes() -> None:
    (y,) = backend.run_node(helper.make_node("Relu", ["x"], ["y"]), [X])
    np.testing.assert_array_equal(y, np.maximum(X, 0))
    result = backend.run_node(aten("max", ["x"], ["v", "i"], ["self"], overload="dim", dim=1), X)
    assert result.v == 2 and result.i == 1
    (y,) = backend.run_node(helper.make_node("Clip", ["x"], ["y"], min=0.0, max=1.0), [X], opset_version=7)
    np.testing.assert_array_equal(y, X.clip(0, 1))


def test_devices() -> None:
    assert backend.supports_device("CPU") and not backend.supports_device("TPU")
    assert backend.supports_device("CUDA") == backend.supports_device("CUDA:0")
    assert not backend.supports_device("CUDA:99")
    with pytest.raises(BackendError, match="CUDA:99"):
        backend.prepare(model([relu("x", "y")], {"x": 1}, ["y"]), device="CUDA:99")


def test_compatible_models() -> None:
    assert backend.is_compatible(model([relu("x", "y")], {"x": 1}, ["y"]))
    unknown = model([aten("no_such_operator", ["x"], ["y"], ["self"])], {"x": 1}, ["y"])
    assert not backend.is_compatible(unknown)
    with pytest.raises(BackendError, match=r"aten::no_such_operator.*import what defines it"):
        backend.prepare(unknown)
    assert not backend.is_compatible(model([helper.make_node("Nope", ["x"], ["y"], domain="d")], {"x": 1}, ["y"]))


def test_errors_of_torch_name_the_node() -> None:
    proto = model([aten("mm", ["x", "x"], ["y"], ["self", "mat2"])], {"x": 1}, ["y"])
    with pytest.raises(BackendError, match=r"mm_y.*aten::mm.*torch fails"):
        backend.run_model(proto, X)


def test_nodes_without_names_of_arguments_take_them_in_order() -> None:
    """As files of other exporters have them."""
    node = helper.make_node("ATen", ["x", "x"], ["y"], domain=ATEN, operator="add", overload_name="Tensor", alpha=3)
    np.testing.assert_array_equal(backend.run_model(model([node], {"x": 1}, ["y"]), X)[0], 4 * X)
