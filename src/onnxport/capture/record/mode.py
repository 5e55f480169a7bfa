"""Gives Python sizes that carry their expressions, and sees what Python does with tensors without an operator."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable
from types import FunctionType
from typing import Any

import torch

from onnxport import compat
from onnxport.capture.record import attempts
from onnxport.capture.record.calls import scans
from onnxport.capture.record.calls.control_flow import higher_order
from onnxport.capture.record.handlers import RAISED
from onnxport.capture.record.numbers.carriers import CARRIERS, carried
from onnxport.capture.record.numbers.listener import STATE
from onnxport.capture.record.record import Number
from onnxport.capture.record.recording import Recording
from onnxport.capture.record.speculation import every_index
from onnxport.capture.record.tensors import comparisons, filled, index_parts
from onnxport.capture.record.tensors.functorch import gradient
from onnxport.capture.record.tensors.sized_tensors import SizedTensor, as_carried, is_known_to, is_sized, unsized
from onnxport.capture.record.tensors.strides import inner_axes
from onnxport.capture.record.tensors.subclasses import set_data, shown

Args = tuple[Any, ...]
RANGE: Any = torch.range
TEXT: Any = torch.Tensor.__repr__
Special = Callable[["Recording", Any, Args, dict[str, Any]], Any]


def _is_plain(argument: Any) -> bool:
    """Whether an argument is of no class that may have its own ways; sizes are numbers."""
    if isinstance(argument, (list, tuple)):
        return all(map(_is_plain, argument))
    return type(argument) in CARRIERS or type(argument) is SizedTensor or compat.functional.is_plain(argument)


class SizeMode(compat.functional.FunctionMode):
    """The functions of torch that a model calls, one by one; those of torch.nn.functional by what they call."""

    def __init__(self, recorder: Recording) -> None:
        super().__init__(_is_plain)
        self._recorder = recorder
        self._replaced: list[contextlib.ExitStack] = []

    def __enter__(self) -> Any:
        self._replaced.append(contextlib.ExitStack())
        for holder, name, instead in UNSEEN:
            self._replaced[-1].enter_context(compat.patches.replaced(holder, name, instead))
        return super().__enter__()

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        self._replaced.pop().close()

    def __torch_function__(self, function: Any, types: Any, args: Args = (), kwargs: Any = None) -> Any:
        args, kwargs = compat.functional.with_order(function, args, kwargs or {})
        recorder = self._recorder
        if not recorder.is_active():
            return function(*args, **kwargs)
        special = SPECIAL.get(function)
        if recorder.has_sized and args:
            if special in SIZES and is_sized(args[0]):
                return as_carried(function(*args, **kwargs))
            if special is not None and special is not gradient:
                args = (unsized(args[0]), *args[1:])
        if special is not None:
            result = special(recorder, function, args, kwargs)
            if result is not NotImplemented:
                return result
        elif compat.higher_order.is_higher_order(function):
            return higher_order(recorder, function, args, kwargs, LOOPS)
        return call(recorder, function, args, kwargs)


def call(recorder: Recording, function: Any, args: Args, kwargs: dict[str, Any]) -> Any:
    """A call of a function of torch, whose operators the recorder sees."""
    outer = recorder.function, recorder.call
    recorder.plain_reads, recorder.left, recorder.function, recorder.call = [], [], function, (args, kwargs)
    recorder.inside += 1
    reads, conditions = len(recorder.record.reads), len(recorder.record.conditions)
    try:
        result = function(*args, **kwargs)
        if recorder.left and isinstance(result, torch.Tensor):
            recorder.note_numbers(result)
        read_from = [read.of for read in recorder.record.reads[reads:]]
        for number in dict.fromkeys((*recorder.plain_reads, *recorder.left)):
            if number.op != "item" or number.operands[0] not in read_from:
                recorder.note_loss("argument", number)  # what C++ did with it is in no operator's arguments
    except RAISED:
        attempts.note_refused(recorder, function, args, conditions)
        raise
    finally:
        recorder.inside -= 1
        (recorder.function, recorder.call), recorder.plain_reads, recorder.left = outer, [], []
    found = recorder.record.reads
    if len(found) > reads:
        name = getattr(function, "__name__", "")
        found[reads:] = [dataclasses.replace(read, how=name) for read in found[reads:]]
    recorder.known_as(result)
    recorder.last.clear()
    return result


def _range(*args: Any, **kwargs: Any) -> Any:
    recorder: Any = STATE.listener
    return call(recorder, RANGE, args, kwargs) if recorder is not None and recorder.is_active() else NotImplemented


def _repr(tensor: torch.Tensor, **kwargs: Any) -> Any:
    """A tensor as text, of which nothing is noted where C++ tells why it does not take an overload."""
    recorder: Any = STATE.listener
    if recorder is None or not recorder.is_active():
        return NotImplemented
    if not recorder.inside:
        return shown(recorder, TEXT, (unsized(tensor),), kwargs)
    with compat.dispatch.unseen():
        return TEXT(unsized(tensor), **kwargs)


def _shape(recorder: Recording, function: Any, args: Args, kwargs: dict[str, Any]) -> Any:
    sizes = function(*args, **kwargs)
    if not recorder.symbolic or not sizes:
        return sizes
    ref = recorder.ref(args[0])
    return torch.Size([carried(size, "size", ref, axis) for axis, size in enumerate(sizes)])


def _size(recorder: Recording, function: Any, args: Args, kwargs: dict[str, Any]) -> Any:
    if len(args) + len(kwargs) == 1:
        return _shape(recorder, function, args, kwargs)
    size = function(*args, **kwargs)
    if not recorder.symbolic:
        return size
    axis = args[1] if len(args) > 1 else kwargs["dim"]
    return carried(size, "size", recorder.ref(args[0]), int(axis) % max(args[0].dim(), 1))


def _stride(recorder: Recording, function: Any, args: Args, kwargs: dict[str, Any]) -> Any:
    """The strides of a tensor that lies in memory without gaps, in any order of its axes, follow from its sizes."""
    strides = function(*args, **kwargs)
    tensor = args[0]
    inner = inner_axes(tensor) if recorder.symbolic else None
    if inner is None:
        return strides
    ref = recorder.ref(tensor)
    if isinstance(strides, int):
        axis = int(args[1] if len(args) > 1 else kwargs["dim"]) % max(tensor.dim(), 1)
        return carried(strides, "stride", ref, inner[axis])
    return tuple(carried(stride, "stride", ref, axes) for stride, axes in zip(strides, inner, strict=True))


def _numel(recorder: Recording, function: Any, args: Args, kwargs: dict[str, Any]) -> Any:
    """A number of elements, or of the bytes that they take."""
    count, tensor = function(*args, **kwargs), args[0] if args else kwargs["input"]
    if not recorder.symbolic:
        return count
    elements = carried(tensor.numel(), "numel", recorder.ref(tensor))
    return elements * tensor.element_size() if function == BYTES else elements


def _item(recorder: Recording, function: Any, args: Args, kwargs: dict[str, Any]) -> Any:
    """A number read from a tensor carries that on."""
    ref = recorder.ref(args[0])
    reads = len(recorder.record.reads)
    value = call(recorder, function, args, kwargs)
    if type(value) in (int, float):
        del recorder.record.reads[reads:]
        recorder.symbolic = True  # a size may follow from it
    if type(value) is bool:
        return recorder.note_truth(ref, value)
    return carried(value, "item", ref)


def _number(recorder: Recording, function: Any, args: Args, kwargs: dict[str, Any]) -> Any:
    """A tensor that torch converts to a number of Python's: the number that is read from it, converted."""
    if not isinstance(args[0], torch.Tensor):
        return NotImplemented
    with recorder.mode:
        return function(args[0].item())


def _truth(recorder: Recording, function: Any, args: Args, kwargs: dict[str, Any]) -> Any:
    """A tensor with one element as a truth value."""
    ref = recorder.ref(args[0])
    return recorder.note_truth(ref, call(recorder, function, args, kwargs))


def _every_index(recorder: Recording, tensor: torch.Tensor) -> torch.Tensor | None:
    """All indices of an axis in place of those that data choose, where Python takes what a tensor holds."""
    axis = recorder.speculation.every(recorder.ref(tensor))
    if axis is None:
        return None
    recorder.note_loss("__iter__", axis)
    return every_index(axis, tensor)


def _tolist(recorder: Recording, function: Any, args: Args, kwargs: dict[str, Any]) -> Any:
    every = _every_index(recorder, args[0])
    if every is not None:
        return every.tolist()
    ref = recorder.ref(args[0])
    with compat.dispatch.unseen():
        content = function(*args, **kwargs)
    if args[0].dtype == torch.bool or args[0].is_complex():
        recorder.note_read("tolist", ref, content)
        return content

    recorder.symbolic = True
    for axis, length in enumerate(args[0].shape):
        recorder.note_loss("__iter__", Number(length, "size", (ref, axis)))

    def listed(part: Any, indices: tuple[int, ...]) -> Any:
        if isinstance(part, list):
            return [listed(element, (*indices, index)) for index, element in enumerate(part)]
        return carried(part, "element", ref, indices)

    return listed(content, ())


def _as_array(recorder: Recording, function: Any, args: Args, kwargs: dict[str, Any]) -> Any:
    """Content that leaves torch as a whole."""
    every = _every_index(recorder, args[0])
    if every is not None:
        return function(every, *args[1:], **kwargs)
    ref = recorder.ref(args[0])
    with compat.dispatch.unseen():
        content = function(*args, **kwargs)
    recorder.note_read(function.__name__, ref, content)
    return content


def _data(recorder: Recording, function: Any, args: Args, kwargs: dict[str, Any]) -> Any:
    return torch.Tensor.detach(args[0]) if len(args) == 1 or args[1] is not None else NotImplemented


def _contiguous(recorder: Recording, function: Any, args: Args, kwargs: dict[str, Any]) -> Any:
    """Of a tensor that is contiguous Python gives back the tensor, and calls no operator."""
    return call(recorder, torch.ops.aten.contiguous.default, args[:1], _memory_format(*args[1:], **kwargs))


def _memory_format(memory_format: Any = torch.contiguous_format) -> dict[str, Any]:
    return {"memory_format": memory_format}


def _deep_copy(recorder: Recording, function: Any, args: Args, kwargs: dict[str, Any]) -> Any:
    """A deep copy is made out of sight."""
    ref = recorder.values.known(args[0])
    if ref is None or ref.number in recorder.record.constants:
        return NotImplemented
    copied = args[0].detach().clone()
    args[1][id(args[0])] = copied
    return copied


def _length(recorder: Recording, function: Any, args: Args, kwargs: dict[str, Any]) -> Any:
    length = function(*args, **kwargs)
    if recorder.symbolic:
        recorder.note_loss("len", carried(length, "size", recorder.ref(args[0]), 0).number)
    return length


SIZES = frozenset({_shape, _size, _stride, _numel})


def _get_item(recorder: Recording, function: Any, args: Args, kwargs: dict[str, Any]) -> Any:
    """C++ leaves out a slice that is the whole axis, unless a bound is symbolic: at another size it may be a part.

    A step of 1 it leaves out in any case. A tensor as a bound is read as a number.
    """
    target, index, *rest = args
    index = index_parts.with_read_bounds(index, lambda bound: _item(recorder, TENSOR.item, (bound,), {}))
    for part in index if type(index) is tuple else (index,):
        if type(part) is slice and type(part.step) in CARRIERS:
            recorder.note_loss("step", part.step.node.number)
    if recorder.symbolic:
        index = index_parts.with_bounds(index)
    return call(recorder, function, (target, index, *rest), kwargs)


def _set_item(recorder: Recording, function: Any, args: Args, kwargs: dict[str, Any]) -> Any:
    """C++ expands a tensor to the sizes that the slice has now. A copy into the slice expands it to those it has."""
    target, index, value = args
    if not isinstance(value, torch.Tensor) or not value.dim() or not index_parts.is_view(index):
        return _get_item(recorder, function, args, kwargs)
    part = _get_item(recorder, TENSOR.__getitem__, (target, index), {})
    while value.dim() > part.dim() and value.shape[0] == 1:
        value = call(recorder, TENSOR.squeeze, (value, 0), {})
    call(recorder, TENSOR.copy_, (part, value), {})
    return None


def _filled(recorder: Recording, function: Any, args: Args, kwargs: dict[str, Any]) -> Any:
    with recorder.mode:
        given = filled.as_numbers(function, args, kwargs, functools.partial(is_known_to, recorder))
    return NotImplemented if given is None else call(recorder, function, *given)


def _unbind(recorder: Recording, function: Any, args: Args, kwargs: dict[str, Any]) -> Any:
    """The parts of a tensor along an axis, of which there may be others at another size."""
    every = None if any(args[1:]) or any(kwargs.values()) else _every_index(recorder, args[0])
    if every is not None:
        with compat.dispatch.unseen():
            return every.unbind()
    parts = call(recorder, function, args, kwargs)
    recorder.parts.note(args, kwargs, parts)
    if recorder.symbolic:
        axis = kwargs.get("dim", args[1] if len(args) > 1 else 0) % args[0].dim()
        recorder.note_loss("parts", carried(len(parts), "size", recorder.ref(args[0]), axis).number)
    return parts


def _tensor_split(recorder: Recording, function: Any, args: Args, kwargs: dict[str, Any]) -> Any:
    """A tensor that says how many parts there are is read by C++: a list has as many as it says now."""
    given = args[1] if len(args) > 1 else kwargs.get("tensor_indices_or_sections")
    if not isinstance(given, torch.Tensor) or given.dim():
        return NotImplemented
    with compat.dispatch.unseen():
        sections = int(given)
    recorder.note_read(function.__name__, recorder.ref(given), sections)
    rest = {name: part for name, part in kwargs.items() if name == "dim"}
    return call(recorder, function, (args[0], sections, *args[2:]), rest)


def _iterator(recorder: Recording, function: Any, args: Args, kwargs: dict[str, Any]) -> Any:
    return iter(_unbind(recorder, torch.Tensor.unbind, (args[0], 0), {})) if args[0].dim() else NotImplemented


def _concatenated(recorder: Recording, function: Any, args: Args, kwargs: dict[str, Any]) -> Any:
    """All parts of a tensor joined again are the tensor, however many there are."""
    with recorder.mode:
        whole = recorder.parts.joined(function.__name__, args, kwargs)
    return NotImplemented if whole is None else whole


def _python_function(recorder: Recording, function: Any, args: Args, kwargs: dict[str, Any]) -> Any:
    """A Python function of torch that computes with sizes: the mode sees what it calls."""
    with recorder.mode:
        return _without_overrides(function)(*args, **kwargs)


@functools.cache
def _without_overrides(function: FunctionType) -> FunctionType:
    """The function without the question whether somebody overrides it."""
    answers = dict.fromkeys(compat.functional.ASKING, lambda *given: False)
    names = {**function.__globals__, **answers}
    made = FunctionType(function.__code__, names, function.__name__, function.__defaults__, function.__closure__)
    made.__kwdefaults__ = function.__kwdefaults__
    return made


LOOPS: dict[str, Any] = {
    compat.higher_order.SCAN: scans.scan,
    compat.higher_order.MAP: scans.mapped,
    compat.higher_order.ATTENTION: scans.attention,
}
TENSOR: Any = torch.Tensor
ATEN: Any = torch.ops.aten
BYTES: Any = TENSOR.nbytes.__get__
# No mode sees that a model calls torch.range, nor that C++ wants the text of a tensor.
UNSEEN = (torch, "range", _range), (TENSOR, "__repr__", _repr)
SPECIAL: dict[Any, Special] = {
    TENSOR.shape.__get__: _shape,
    TENSOR.size: _size,
    **dict.fromkeys((TENSOR.stride, ATEN.sym_stride.int), _stride),
    **dict.fromkeys((torch.numel, TENSOR.numel, TENSOR.nelement, BYTES, ATEN.sym_numel.default), _numel),
    **dict.fromkeys((ATEN.sym_size.int, ATEN.size.int), _size),  # as modules of torch.export programs ask
    TENSOR.item: _item,
    **dict.fromkeys((torch.sym_int, torch.sym_float), _number),
    **dict.fromkeys((TENSOR.__bool__, TENSOR.is_nonzero, torch.is_nonzero), _truth),
    **comparisons.FUNCTIONS,
    TENSOR.tolist: _tolist,
    TENSOR.numpy: _as_array,
    TENSOR.__array__: _as_array,
    TENSOR.data.__get__: _data,
    TENSOR.data.__set__: set_data,
    torch.autograd.grad: gradient,
    TENSOR.__format__: shown,
    TENSOR.__deepcopy__: _deep_copy,
    TENSOR.contiguous: _contiguous,
    TENSOR.__len__: _length,
    TENSOR.__iter__: _iterator,
    TENSOR.unbind: _unbind,
    torch.unbind: _unbind,
    **dict.fromkeys((torch.tensor_split, TENSOR.tensor_split), _tensor_split),
    **dict.fromkeys((torch.cat, torch.concat, torch.concatenate, torch.stack), _concatenated),
    **dict.fromkeys((torch.stft, TENSOR.stft, *compat.functional.UNPOOLS), _python_function),
    **dict.fromkeys(filled.FUNCTIONS, _filled),
    TENSOR.__getitem__: _get_item,
    TENSOR.__setitem__: _set_item,
}
