"""The flat code of a program for one library, and the conversion of arguments to that library."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from irscope.errors import ArgumentError
from irscope.ir import Graph, Node
from irscope.ops.traits import STORAGE_WRITERS
from irscope.runtime.arrays import (
    BufferPool,
    CupyLibrary,
    CupyMemory,
    Library,
    Memory,
    NumpyMemory,
    TorchLibrary,
    TorchMemory,
    as_torch_on_gpu,
    borrow,
    imported_cupy,
    is_foreign,
    is_torch_tensor,
    library_for,
    return_arrays,
)
from irscope.runtime.arrays.dlpack import in_native_order
from irscope.runtime.arrays.small_floats import rounded, widened
from irscope.runtime.arrays.surroundings import Surroundings
from irscope.runtime.executor.arena import Arena
from irscope.runtime.executor.code import Code, Slots, Stamp, flatten
from irscope.runtime.executor.gradients import Gradients, may_write
from irscope.runtime.executor.guarded_call import Call, program_call
from irscope.runtime.executor.kernel_calls import GroupCall, GroupKernels
from irscope.runtime.executor.peak_memory import PeakMemory
from irscope.runtime.foreign_ops import plainly_typed, tensor_of

__all__ = ["BoundProgram", "as_torch"]

_NEGATING: Final = ("aten::imag", "aten::_neg_view")
"""Ops whose results torch may store with the sign flipped."""


class BoundProgram:
    """The flat code of a graph for one library."""

    def __init__(
        self, graph: Graph, groups: Mapping[Node, GroupKernels], library: str, device: str, pool: BufferPool | None,
        surroundings: Surroundings, arena: Arena | None = None,
    ) -> None:  # fmt: skip
        self.graph = graph
        self.arena = arena
        self.writes = may_write(graph)
        self.library: Library
        self.memory: Memory
        self.is_torch = library == "torch"
        self.move_to = "cuda" if device == "cuda" else ""
        if self.is_torch:
            self.library = TorchLibrary(device=self.move_to)
            ops = {node.op for node in graph.nodes()}
            own = pool if ops.isdisjoint(STORAGE_WRITERS) else None  # storage that is exchanged must be torch's own
            negated = not ops.isdisjoint(_NEGATING)
            self.memory = TorchMemory(
                self.move_to or "cpu", may_be_negated=negated, pool=own, surroundings=surroundings
            )
            self.gradients = Gradients(graph, self.library.torch)
        elif self.move_to:
            self.library, self.memory = CupyLibrary(cupy := imported_cupy()), CupyMemory(cupy)
        else:
            self.library, self.memory = library_for(()), NumpyMemory(pool or BufferPool(limit_bytes=0))
        bound = {
            value: held if isinstance(held, list | dict) else self._moved(held) for value, held in graph.bound.items()
        }
        instead = arena.instead if arena is not None and self.is_torch else None

        def call(node: Node) -> GroupCall | None:
            return groups[node].call(self.memory, self.library) if node in groups else None

        self.code: Code = flatten(graph.body, self.library, bound=bound, call=call, instead=instead)
        self.slots = tuple(
            slot for slot, value in zip(self.code.inputs, graph.inputs, strict=True) if value not in graph.bound
        )

    def run(
        self, args: Sequence[Any], visit: Callable[[Node], None] | None, footprints: list[PeakMemory] | None = None
    ) -> tuple[Any, ...]:
        """Returns the program's results; a `PeakMemory` that follows the run is appended to `footprints`."""
        slots = self.code.template.copy()
        for slot, argument in zip(self.slots, args, strict=True):
            slots[slot] = self._moved(argument)
        results = self.run_slots(slots, visit, footprints)
        if isinstance(self.memory, CupyMemory):
            return self.memory.given_back(args, results)
        if self.is_torch:
            return results
        rounded_results = rounded(results, [value.type for value in self.graph.outputs])
        return return_arrays(rounded_results, args, self.graph.bound.values())

    def call(self, args: Sequence[Any], check: Callable[[Sequence[Any]], object] | None) -> Call | None:
        """Returns a specialised call for arguments like these, which have passed the checks; None if some must be moved."""
        if self.move_to:
            return None
        gives_one = len(self.code.outputs) == 1
        return program_call(args, self.memory, self.run_slots, self.code.template, self.slots, check, gives_one=gives_one)

    def run_slots(
        self, slots: Slots, visit: Callable[[Node], None] | None = None, footprints: list[PeakMemory] | None = None
    ) -> tuple[Any, ...]:
        """Returns the results of a run on slots that hold the arguments."""
        if self.arena is None:
            return self._run_slots(slots, visit, footprints)
        before = self.arena.enter()
        try:
            return self._run_slots(slots, visit, footprints)
        finally:
            self.arena.leave(before)

    def _run_slots(
        self, slots: Slots, visit: Callable[[Node], None] | None, footprints: list[PeakMemory] | None
    ) -> tuple[Any, ...]:
        after = None
        if footprints is not None:
            footprints.append(PeakMemory(self.code, slots))
            after = footprints[-1].after
        given: list[Any] = []
        wanting: list[Any] = []
        if isinstance(self.library, TorchLibrary):
            torch = self.library.torch
            if torch.is_grad_enabled():
                given = [slots[slot] for slot in self.slots]
                wanting = self.gradients.wanted(given)
            before = torch.is_grad_enabled()
            torch._C._set_grad_enabled(False)  # as `torch.no_grad` does, but faster
            try:
                self.code.run(slots, visit, after)
            finally:
                torch._C._set_grad_enabled(before)
        else:
            self.code.run(slots, visit, after)
        results = tuple([slots[slot] for slot in self.code.outputs])
        return self.gradients.closed(results, wanting, given) if wanting else results

    def stamped(self, stamp: Stamp) -> Code:
        """Makes later runs leave a stamp after each instruction; returns the code that does so."""
        self.code = self.code.stamped(stamp)
        return self.code

    def _moved(self, value: Any) -> Any:
        """Returns the value as the library has it: arrays become tensors that share their memory, containers are copied.

        A program therefore writes its arguments' elements but never the caller's lists, as in TorchScript.
        """
        if isinstance(value, list):
            return [self._moved(item) for item in value]
        if isinstance(value, tuple):
            return tuple(self._moved(item) for item in value)
        if isinstance(value, dict):
            return {key: self._moved(item) for key, item in value.items()}
        if isinstance(self.memory, CupyMemory):
            return self.memory.adopted(value, may_write=self.writes)
        lent = not self.move_to and is_foreign(value)
        if lent:
            value = borrow(value, may_write=self.writes)
        value = in_native_order(value, may_write=self.writes)
        if not self.is_torch and not self.move_to and isinstance(value, np.ndarray):
            value = widened(value, may_write=self.writes)
        if self.is_torch and isinstance(value, np.ndarray | np.generic):
            value = _adopted(value.copy() if (self.writes or lent) and not value.flags.writeable else value)
        elif self.move_to:
            value = as_torch_on_gpu(value, may_write=self.writes)
        if isinstance(self.memory, TorchMemory) and is_torch_tensor(value):
            if value._is_zerotensor():  # it has no memory
                value = self.memory.torch.zeros(value.shape, dtype=value.dtype, device=value.device)
            elif value.is_neg():
                self.memory.may_be_negated = True
        return value.to(self.move_to) if self.move_to and is_torch_tensor(value) else value


class _Unlocked:
    """Exposes the memory of a read-only array as writable, for a program that does not write it.

    Torch has no read-only tensors and warns of each. Keeps the array alive.
    """

    def __init__(self, array: Any) -> None:
        self.array = array
        interface = array.__array_interface__
        self.__array_interface__ = interface | {"data": (interface["data"][0], False)}


def _adopted(array: Any) -> Any:
    """Returns a caller's array as a tensor. Raises ArgumentError for an array that torch cannot represent."""
    try:
        plain = array.flags.writeable or array.dtype.isbuiltin != 1  # a type of `ml_dtypes`, which the interface does not name
        return as_torch(array if plain else np.asarray(_Unlocked(array)))
    except (TypeError, ValueError) as error:
        raise ArgumentError(
            f"torch cannot share the memory of an argument, an array of {array.dtype} with strides {array.strides}: {error}",
            hint="pass a copy that is an ordinary array: numpy.array(x, dtype=..., order='C')",
        ) from None


def as_torch(value: Any) -> Any:
    """Returns an array as a tensor that shares its memory, also inside lists, tuples and dictionaries."""
    import torch

    if isinstance(value, list | tuple):
        return type(value)([as_torch(item) for item in value])
    if isinstance(value, dict):
        return {key: as_torch(item) for key, item in value.items()}

    if not isinstance(value, np.ndarray | np.generic):
        return value
    array = np.asarray(value)
    return torch.from_numpy(plainly_typed(array)) if array.dtype.isbuiltin == 1 else tensor_of(array, torch, "")  # of `ml_dtypes`
