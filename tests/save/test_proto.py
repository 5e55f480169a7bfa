"""The bytes: what readers make of a model that was written in pieces."""

from __future__ import annotations

import io
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import onnx_ir as ir
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from onnx import numpy_helper
from onnx_ir.tensor_adapters import TorchTensor

from onnxport.errors import SaveError
from onnxport.save import proto, serialize, stage, to_proto
from tests.save.models import identity_model, initializer, linear_model, python, run


@pytest.fixture
def model() -> ir.Model:
    return linear_model(torch.randn(64, 32), torch.randn(32))


def expected(model: ir.Model, x: np.ndarray) -> np.ndarray:
    weight, bias = (value.const_value for value in model.graph.initializers.values())
    assert weight is not None
    assert bias is not None
    return np.asarray(x @ weight.numpy() + bias.numpy())


def test_runs_from_memory_and_from_a_file(model: ir.Model, tmp_path: Path) -> None:
    x = np.random.default_rng(0).standard_normal((3, 64), np.float32)
    data = serialize(model)
    path = tmp_path / "model.onnx"
    path.write_bytes(data)
    np.testing.assert_allclose(run(data, x), expected(model, x), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(run(str(path), x), expected(model, x), rtol=1e-4, atol=1e-5)


def test_loads_and_passes_the_checker(model: ir.Model, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(serialize(model))
    onnx.checker.check_model(str(path), full_check=True)
    loaded = onnx.load(path)
    onnx.checker.check_model(loaded, full_check=True)
    assert [tensor.name for tensor in loaded.graph.initializer] == ["layer.bias", "layer.weight"]
    assert [node.op_type for node in loaded.graph.node] == ["MatMul", "Add"]


def fields(message: bytes) -> list[int]:
    """The numbers of a message's fields, as they come; ONNX has no others than these two wire types."""

    def varint() -> int:
        nonlocal place
        value, shift = 0, 0
        while True:
            byte = message[place]
            place, value, shift = place + 1, value | (byte & 0x7F) << shift, shift + 7
            if byte < 0x80:
                return value

    place, found = 0, []
    while place < len(message):
        tag = varint()
        found.append(tag >> 3)
        assert tag & 7 in (0, 2)
        length = varint()
        place += length if tag & 7 else 0
    return found


@pytest.mark.parametrize("external", [False, True])
def test_the_graph_is_one_field_for_readers_that_do_not_merge(
    model: ir.Model, tmp_path: Path, *, external: bool
) -> None:
    """Netron, for one, takes the last of the fields that come again."""
    with stage(model, tmp_path / "model.onnx", external) as staged:
        staged.commit()
    found = fields((tmp_path / "model.onnx").read_bytes())
    assert found.count(onnx.ModelProto.GRAPH_FIELD_NUMBER) == 1
    assert found[0] == onnx.ModelProto.IR_VERSION_FIELD_NUMBER


def test_proto_is_what_the_bytes_parse_to(model: ir.Model) -> None:
    assert to_proto(model) == onnx.ModelProto.FromString(serialize(model))


def test_only_the_order_of_initializers_differs_from_onnx_ir(model: ir.Model) -> None:
    ours, theirs = to_proto(model), ir.to_proto(model)
    ours_by_name = {tensor.name: tensor for tensor in ours.graph.initializer}
    assert ours_by_name == {tensor.name: tensor for tensor in theirs.graph.initializer}
    del ours.graph.initializer[:], theirs.graph.initializer[:], theirs.graph.value_info[:]
    assert ours == theirs


def test_same_model_gives_same_bytes(model: ir.Model, tmp_path: Path) -> None:
    first = serialize(model)
    for name in ("a.onnx", "b.onnx"):
        with stage(model, tmp_path / name) as staged:
            staged.commit()
        assert (tmp_path / name).read_bytes() == first


def test_the_model_is_left_as_it_was(model: ir.Model) -> None:
    tensors = [value.const_value for value in model.graph.initializers.values()]
    text = str(model)
    serialize(model)
    assert all(
        value.const_value is tensor for value, tensor in zip(model.graph.initializers.values(), tensors, strict=True)
    )
    assert [tensor.name for tensor in tensors if tensor is not None] == [None, None]
    assert str(model) == text


def test_size_is_known_before_writing(model: ir.Model) -> None:
    assert proto.split(model).size() == len(serialize(model))


def test_data_is_the_tensors_own_memory() -> None:
    for tensor in (torch.randn(8, 8), torch.randn(8, 8, requires_grad=True), torch.randn(8, 8, dtype=torch.bfloat16)):
        view = np.frombuffer(proto.tensor_bytes(TorchTensor(tensor)), np.uint8)
        assert view.ctypes.data == tensor.data_ptr()


TORCH_DTYPES = [
    torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.bool, torch.complex64, torch.complex128,
    torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8, torch.uint16, torch.uint32, torch.uint64,
    torch.float8_e4m3fn, torch.float8_e4m3fnuz, torch.float8_e5m2, torch.float8_e5m2fnuz,
]  # fmt: skip


@pytest.mark.parametrize("elements", [6, 6000], ids=["inline", "piece"])
@pytest.mark.parametrize("dtype", TORCH_DTYPES, ids=str)
def test_torch_dtypes(dtype: torch.dtype, elements: int) -> None:
    values = torch.randint(0, 2, (2, elements // 2)).to(dtype)
    (loaded,) = to_proto(identity_model({"w": values})).graph.initializer
    onnx.checker.check_tensor(loaded)
    assert loaded.raw_data == TorchTensor(values).tobytes()
    array = numpy_helper.to_array(loaded).astype(np.complex128)
    np.testing.assert_array_equal(array, values.to(torch.complex128).numpy())


@pytest.mark.parametrize("elements", [5, 5001], ids=["inline", "piece"])
@pytest.mark.parametrize(
    "dtype", [ml_dtypes.int4, ml_dtypes.uint4, ml_dtypes.int2, ml_dtypes.uint2, ml_dtypes.float4_e2m1fn]
)
def test_dtypes_smaller_than_a_byte_are_packed(dtype: type, elements: int) -> None:
    values = np.arange(elements) % 2
    tensor = ir.tensor(values.astype(dtype))
    (loaded,) = to_proto(identity_model({"w": tensor})).graph.initializer
    assert len(loaded.raw_data) == tensor.nbytes
    np.testing.assert_array_equal(numpy_helper.to_array(loaded).astype(np.int64), values)


def test_packed_tensors_keep_their_bytes() -> None:
    packed = np.arange(2000, dtype=np.uint8)
    tensor = ir.PackedTensor(packed, ir.DataType.UINT4, shape=[4000])
    (loaded,) = to_proto(identity_model({"w": tensor})).graph.initializer
    assert loaded.raw_data == packed.tobytes()


def test_strings_stay_in_the_skeleton() -> None:
    tensor = ir.tensor(["word" * 100] * 100)
    model = identity_model({"words": tensor})
    (loaded,) = to_proto(model).graph.initializer
    assert list(loaded.string_data) == [b"word" * 100] * 100
    assert loaded.name == "words"


NON_CONTIGUOUS: dict[str, torch.Tensor | np.ndarray] = {
    "transposed": torch.randn(40, 60).t(),
    "strided": torch.randn(5000)[::2],
    "expanded": torch.randn(1, 50).expand(50, 50),
    "conjugate": torch.randn(30, 30, dtype=torch.complex64).conj(),
    "bfloat16": torch.randn(40, 60, dtype=torch.bfloat16).t(),
    "channels_last": torch.randn(2, 8, 10, 10).to(memory_format=torch.channels_last),
    "reversed": np.arange(3000)[::-1],
    "fortran": np.asfortranarray(np.arange(3000).reshape(30, 100)),
}


@pytest.mark.parametrize("name", NON_CONTIGUOUS)
def test_non_contiguous_tensors(name: str) -> None:
    model = identity_model({"w": NON_CONTIGUOUS[name]})
    (loaded,) = to_proto(model).graph.initializer
    tensor = model.graph.initializers["w"].const_value
    assert tensor is not None
    np.testing.assert_array_equal(numpy_helper.to_array(loaded), tensor.numpy())


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1,)], ids=str)
def test_scalars_and_empty_tensors(shape: tuple[int, ...]) -> None:
    (loaded,) = to_proto(identity_model({"w": torch.ones(shape)})).graph.initializer
    assert numpy_helper.to_array(loaded).shape == shape


@given(sizes=st.lists(st.integers(0, 40_000), min_size=1, max_size=4))
def test_any_sizes_survive(sizes: list[int]) -> None:
    arrays = {f"w{i}": np.random.default_rng(i).integers(0, 256, size, np.uint8) for i, size in enumerate(sizes)}
    model = identity_model(arrays)
    data = serialize(model)
    assert proto.split(model).size() == len(data)
    loaded = {tensor.name: numpy_helper.to_array(tensor) for tensor in onnx.load(io.BytesIO(data)).graph.initializer}
    assert loaded.keys() == arrays.keys()
    assert all(np.array_equal(loaded[name], array) for name, array in arrays.items())


def test_metadata_of_initializers_is_kept(model: ir.Model) -> None:
    weight = model.graph.initializers["layer.weight"]
    assert weight.const_value is not None
    weight.metadata_props["module"] = "layer"
    weight.const_value.metadata_props["origin"] = "checkpoint"
    weight.const_value.doc_string = "trained"
    loaded = to_proto(model)
    tensor = loaded.graph.initializer[-1]
    assert (tensor.doc_string, tensor.metadata_props[0].key) == ("trained", "origin")
    (info,) = loaded.graph.value_info
    assert (info.name, info.metadata_props[0].value) == ("layer.weight", "layer")
    onnx.checker.check_model(loaded, full_check=True)


def test_initializers_may_be_inputs(model: ir.Model) -> None:
    model.graph.inputs.extend(model.graph.initializers.values())
    loaded = to_proto(model)
    onnx.checker.check_model(loaded)
    assert [value.name for value in loaded.graph.input] == ["x", "layer.weight", "layer.bias"]


def test_model_properties_and_functions_are_kept(model: ir.Model) -> None:
    model.doc_string, model.domain, model.model_version = "a model", "test", 3
    model.metadata_props["key"] = "value"
    a = ir.Value(name="a")
    relu = ir.node("Relu", [a])
    relu.outputs[0].name = "b"
    body = ir.Graph([a], list(relu.outputs), nodes=[relu], opset_imports={"": 21}, name="body")
    function = ir.Function("local", "Positive", graph=body, attributes=[])
    model.functions[function.identifier()] = function
    ours, theirs = to_proto(model), ir.to_proto(model)
    for message in (ours, theirs):
        message.ClearField("graph")
    assert ours == theirs


def test_an_initializer_without_data_is_an_error(model: ir.Model) -> None:
    model.graph.initializers["layer.weight"].const_value = None
    with pytest.raises(SaveError, match=r"layer\.weight"):
        serialize(model)


def test_more_than_a_message_holds_is_an_error(model: ir.Model, monkeypatch: pytest.MonkeyPatch) -> None:
    size = len(serialize(model))
    monkeypatch.setattr(proto, "SIZE_LIMIT", size)
    serialize(model)
    monkeypatch.setattr(proto, "SIZE_LIMIT", size - 1)
    with pytest.raises(SaveError, match="2 GiB"):
        serialize(model)


def test_a_lazy_tensor_is_evaluated() -> None:
    lazy = ir.LazyTensor(
        lambda: ir.Tensor(np.arange(1000)), dtype=ir.DataType.INT64, shape=ir.Shape([1000]), name="lazy"
    )
    (loaded,) = to_proto(identity_model({"w": lazy})).graph.initializer
    np.testing.assert_array_equal(numpy_helper.to_array(loaded), np.arange(1000))


def test_values_shared_by_two_names() -> None:
    shared = TorchTensor(torch.randn(1000))
    loaded = to_proto(identity_model({"a": shared, "b": shared}))
    assert [tensor.name for tensor in loaded.graph.initializer] == ["a", "b"]
    assert initializer("a", shared).const_value is shared


_PEAK = """
import resource, sys
import torch
from onnxport.save import stage
from tests.save.models import identity_model
target, external_data, layout = sys.argv[1:]
weights = [torch.ones(10, 750_000) for _ in range(10)]
model = identity_model({f"w{i}": w.t() if layout == "transposed" else w for i, w in enumerate(weights)})
stage(identity_model({"w": torch.ones(1000)}), target).discard()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
with stage(model, target, external_data=external_data == "True") as staged:
    staged.commit()
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.parametrize("external_data", [False, True], ids=["one_file", "external"])
@pytest.mark.parametrize(("layout", "limit"), [("contiguous", 10_000), ("transposed", 40_000)])
def test_no_second_copy_of_the_weights(layout: str, limit: int, external_data: bool, tmp_path: Path) -> None:
    """300 MB in ten tensors: contiguous ones are not copied, others one at a time."""
    process = python(_PEAK, tmp_path / "model.onnx", external_data, layout)
    output, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) > 300_000_000
    assert int(output) < limit, f"peak memory rose by {int(output)} KiB"
