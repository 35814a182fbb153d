"""Detection of the tensors that a program writes, and their restoration before the next run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from irscope._base.leaves import leaves
from irscope.analysis.per_graph import alias_db_of
from irscope.ir import Graph, check_count
from irscope.runtime.arrays import host_array, is_cupys, is_foreign, is_torch_tensor, off_the_gpu, on_processor

__all__ = ["ArgumentSnapshot"]

T = TypeVar("T")


class ArgumentSnapshot:
    """The tensors passed to a program that it may write, and the saved contents of those that it does write."""

    def __init__(self, *programs: tuple[Graph, Sequence[Any]]) -> None:
        """Programs with their arguments. What the alias db says is never written is not copied: the parameters of a model may
        be half of the memory."""
        given = []
        for graph, args in programs:
            check_count(graph, args)
            writes = alias_db_of(graph).has_writers
            held_by = [*zip(graph.free_inputs, args, strict=True), *graph.bound.items()]
            given += [held for value, held in held_by if writes(value)]
        held = [host_array(value) if is_foreign(value) and on_processor(value) else value for value in leaves(given)]
        self.tensors = [value for value in held if is_torch_tensor(value) or _is_array(value)]
        self.saved: list[tuple[Any, Any]] = []

    @property
    def is_written(self) -> bool:
        """Whether the program writes any of them."""
        return bool(self.saved)

    def watch(self, run: Callable[[], T]) -> T:
        """Runs once, finds out what was written, and restores it; returns the result of the run."""
        before = [(tensor, _copy(tensor)) for tensor in self.tensors]
        try:
            return run()
        finally:
            self.saved = [(tensor, copy) for tensor, copy in before if not _same(tensor, copy)]
            self.restore()

    def restore(self) -> None:
        for tensor, copy in self.saved:
            if _is_array(tensor):
                tensor[...] = copy
            else:
                tensor.detach().copy_(copy)


def _is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray) or is_cupys(value)


def _copy(tensor: Any) -> Any:
    return tensor.copy() if _is_array(tensor) else tensor.detach().clone()


def _same(tensor: Any, copy: Any) -> bool:
    if _is_array(tensor):
        return np.array_equal(off_the_gpu(tensor), off_the_gpu(copy), equal_nan=tensor.dtype.kind in "fc")
    return bool(((tensor == copy) | ((tensor != tensor) & (copy != copy))).all())
