"""Runs a model and restores its state after each run."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import nn

from onnxport import compat
from onnxport.capture.model.inputs import Inputs
from onnxport.capture.model.modules import ModuleCalls
from onnxport.capture.model.parameters import Roots, outermost_scripts
from onnxport.capture.model.refusals import NoTensor
from onnxport.capture.model.state import ModelState, WriteGuard, training_mode
from onnxport.capture.model.structure import Structure, flatten, flatten_like
from onnxport.capture.model.warm_up import Warmth, warmth
from onnxport.errors import CaptureError, KeptFromHandlers

NUMBERS = (int, float, bool)


def has_symbolic(function: Any) -> bool:
    """Whether an autograd Function has a ``symbolic`` method."""
    return getattr(function, "symbolic", None) is not None


class ModelRunner:
    """A model with its example inputs."""

    def __init__(
        self,
        model: Callable[..., Any],
        inputs: Inputs,
        train: bool | None,
        intermediates: Sequence[str],
        *,
        keeps: Callable[[Any], bool] = has_symbolic,
        module_calls: ModuleCalls | None = None,
        keeps_stacks: bool = False,
        merges: bool = True,
        unranked: bool = True,
        names: int = 0,
    ) -> None:
        """With ``keeps_stacks`` nodes have the source lines of their callers, too; with ``merges`` both sides of
        conditions on data are in the graph; with ``unranked`` outputs may have other numbers of dimensions on them.
        ``names`` is how many names there are for outputs."""
        self.model = model
        self.inputs = inputs
        self.train = train
        self.intermediates = list(intermediates)
        self.roots = Roots(model)
        self.parameters = self.roots.tensors()
        self.paths = self.roots.paths()
        self.scripts = outermost_scripts(self.paths)
        self.result: Any = None  # of a scripted model, see `give_lists`
        self.numbers: dict[int, type] = {}  # outputs that are Python numbers, such as a size, by index
        self.truths: set[int] = set()  # truth values in the result that are outputs, by index
        self.truths_seen: dict[int, set[bool]] = {}  # their values in recorded runs
        self.varying: set[int] = set()  # results that are constants of the graph and differed in some call, by index
        self.keeps = keeps
        self.module_calls = module_calls or ModuleCalls()
        self.keeps_stacks = keeps_stacks
        self.merges = merges
        self.unranked = unranked
        self.names = names
        self.merges_counted = merges  # conditions on sizes that data decide, too
        self.finds_loops = True  # whether a condition that is asked again and again may be that of a loop
        self.asked_if_exported = False  # whether the model has asked if it is being exported
        self.changed = False  # whether some call has changed something in the model
        self.warmth: Warmth | None = None  # known once a call has changed something
        self.speculates: bool | None = None  # known once there was a loop over data-dependent indices
        self.leaves_out_last = False  # whether such loops are recorded without the last index

    # What capturing the model finds out about its calls

    def give_truths(self, indices: Iterable[int]) -> None:
        """Truth values in the result that are outputs from now on, by index."""
        self.truths.update(indices)

    def give_lists(self, result: Any) -> None:
        """The result of a scripted model, with placeholders for lists of unknown length."""
        self.result = result

    def decide_conditions(self) -> None:
        """From now on conditions on data are decided as the example decides them."""
        self.merges = self.merges_counted = False

    def take_loops_apart(self) -> None:
        """From now on loops that data end are nests of branches; what was decided of conditions is forgotten."""
        self.finds_loops = False
        self.merges = self.merges_counted = True

    def decide_counted(self) -> None:
        """From now on conditions on sizes that data decide are decided as the example does."""
        self.merges_counted = False

    def settle_speculation(self, kept: bool) -> None:
        """Whether loops over data-dependent indices are recorded with every index from now on."""
        self.speculates = kept

    def leave_out_last(self) -> None:
        """Loops over data-dependent indices are recorded without the last index from now on."""
        self.leaves_out_last = True

    def in_mode(self) -> contextlib.AbstractContextManager[ModelState]:
        """The model in the mode that is exported, within a with statement."""
        return self.untouched()

    def scripts_in_mode(self) -> contextlib.AbstractContextManager[Any]:
        """The same while a graph is built, if the model has scripted parts: their attributes are read then."""
        return self.untouched() if self.scripts else contextlib.nullcontext()

    def execute(self, tensors: Sequence[torch.Tensor], constants: Container[int] = ()) -> list[Any]:
        """The results of one plain call of the model, as flat tensors.

        ``constants`` are the indices of results that are constants of the graph. If it is a mapping to their values,
        those that differ in this call are noted in ``varying``. A size in the result is a number here, and a tensor in
        the graph.
        """
        results = self._execute(tensors, constants)
        return self._execute(tensors, constants) if self.has_to_warm_up() else results

    def has_to_warm_up(self, *, refused: bool = False) -> bool:
        """Whether to repeat the last call after a warm-up call, which from now on goes before each call.

        ``refused`` says that the last call could not be recorded: then it is always repeated once.
        """
        if not self.changed or self.warmth is not None:
            return False
        self.warmth = warmth(self, self.inputs.tensors, refused=refused)
        if self.warmth.state is None:
            return False
        with self.in_mode():
            current = dict(self.roots.tensors())
        self.parameters = [(name, current.get(name, tensor)) for name, tensor in self.parameters]
        return True

    def execute_in_double(self, tensors: Sequence[torch.Tensor], constants: Container[int] = ()) -> list[Any]:
        """One plain call in double precision; weights are converted as they are used."""
        wide = [compat.double.widened(tensor) for tensor in tensors]
        return self._execute(wide, constants, compat.double.double_precision())

    def _execute(
        self,
        tensors: Sequence[torch.Tensor],
        constants: Container[int],
        precision: contextlib.AbstractContextManager[None] | None = None,
        start: ModelState | None = None,
    ) -> list[Any]:
        with self.untouched(start) as state, WriteGuard(state), precision or contextlib.nullcontext():
            leaves, _, intermediates = self.call(copies(tensors))
        # Other results of a script are read from its graph.
        if self.result is None and all(leaf is None for leaf in leaves) and not compat.scripts.is_scripted(self.model):
            raise NoTensor
        if isinstance(constants, Mapping):
            self.varying |= {
                i for i, constant in constants.items() if i < len(leaves) and _differs(leaves[i], constant)
            }
        self.numbers.clear()
        self.numbers.update({i: type(x) for i, x in enumerate(leaves) if i not in constants and type(x) in NUMBERS})
        outputs = [leaf for index, leaf in enumerate(leaves) if index not in constants]
        return [o if o is None or isinstance(o, list) else torch.as_tensor(o) for o in (*outputs, *intermediates)]

    def leaves(self, *, exported: bool) -> list[Any]:
        """The leaves of the result on the example, with ``is_in_onnx_export()`` true or false."""
        answer = contextlib.nullcontext() if exported else compat.in_no_export()
        with self.untouched() as state, WriteGuard(state), answer:
            return self.call(copies(self.inputs.tensors))[0]

    def _note_asked(self) -> None:
        self.asked_if_exported = True

    def call(self, tensors: Sequence[torch.Tensor]) -> tuple[list[Any], Structure, list[torch.Tensor]]:
        """The leaves of the result, its structure, and the requested intermediate outputs."""
        with self._intermediate_outputs() as collected, KeptFromHandlers():
            output = self.inputs.call(self.model, tensors)
        leaves, structure = flatten(output)
        if self.result is not None:
            leaves = flatten_like(output, self.result)
        leaves = [leaf.dequantize() if _is_quantized(leaf) else leaf for leaf in leaves]
        return leaves, structure, [collected[path] for path in self.intermediates]

    def advanced(
        self, start: ModelState | None, tensors: Sequence[torch.Tensor] | None
    ) -> tuple[ModelState, list[str]]:
        """The state after a call from another one, or after switching the mode, and what changed by name."""
        with self.untouched(start) as state, WriteGuard(state):
            if tensors is not None:
                self.call(copies(tensors))
            changes = state.changed_names()
            return state.advanced(), changes

    def results(self, start: ModelState | None, tensors: Sequence[torch.Tensor]) -> list[Any]:
        """The results of a plain call from another state."""
        return self._execute(tensors, (), start=start)

    def has_new_layers(self, start: ModelState | None) -> bool:
        """Whether another state has submodules that the model had not at first."""
        with self.untouched(start):
            return not self.roots.paths().keys() <= self.paths.keys()

    @contextlib.contextmanager
    def untouched(self, start: ModelState | None = None) -> Iterator[ModelState]:
        """Restore the model and the random generators after a call. One thread at a time.

        Calls start from a state after a warm-up call, if there has to be one, unless another ``start`` is given.
        """
        if start is None and self.warmth is not None:
            start = self.warmth.state
        with compat.PROCESS_STATE:
            initial = ModelState(self.roots.modules())
            torch.clear_autocast_cache()  # else weights that an earlier call converted would be constants
            try:
                with (
                    compat.random_state(),
                    training_mode(self.roots.modules(), self.train, initial),
                    compat.composite_attention(),
                    compat.scripts.plain_execution(),
                    compat.higher_order.called_directly(),
                    torch.no_grad(),
                    compat.in_onnx_export(self._note_asked),
                    _started(self.roots, initial, start) as state,
                ):
                    yield state
            finally:
                self.changed = initial.restore() or self.changed
                torch.clear_autocast_cache()

    @contextlib.contextmanager
    def _intermediate_outputs(self) -> Iterator[dict[str, torch.Tensor]]:
        """The outputs of the requested submodules, copied at once: a later layer may overwrite them."""
        collected: dict[str, torch.Tensor] = {}
        handles = []
        for path in self.intermediates:

            def keep(module: nn.Module, args: Any, output: Any, path: str = path) -> None:
                tensors = [leaf for leaf in flatten(output)[0] if isinstance(leaf, torch.Tensor)]
                if len(tensors) != 1:
                    raise CaptureError(f"intermediate_outputs: {path!r} returns {len(tensors)} tensors, not one")
                collected[path] = tensors[0].clone()

            handles.append(self.paths[path].register_forward_hook(keep))
        try:
            yield collected
            missing = [path for path in self.intermediates if path not in collected]
            if missing:
                raise CaptureError(f"intermediate_outputs: {', '.join(missing)} did not run in this forward pass")
        finally:
            for handle in handles:
                handle.remove()


@contextlib.contextmanager
def _started(roots: Roots, initial: ModelState, start: ModelState | None) -> Iterator[ModelState]:
    """The model in the state that a call starts from, which is restored after it."""
    if start is None:
        yield initial
        return
    start.restore()
    state = ModelState(roots.modules())
    try:
        yield state
    finally:
        state.restore()


def _is_quantized(leaf: Any) -> bool:
    return isinstance(leaf, torch.Tensor) and leaf.is_quantized


def _differs(value: Any, constant: Any) -> bool:
    """Whether two plain Python values differ."""
    return type(value) is type(constant) and isinstance(value, (*NUMBERS, str)) and value != constant


def copies(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Copies of the inputs: a model may write to them."""
    return [tensor.detach().clone() for tensor in tensors]
