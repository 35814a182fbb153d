"""The constants of a program with their elements: parameters and buffers bound to inputs, literals, and a module's data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import Any, Final, Literal

import numpy as np

from irscope.ir import Graph, Module, Node, TensorData, Value
from irscope.ir.module import graphs_of

__all__ = ["Array", "Kind", "Stored", "digest_of", "stored_in"]

Kind = Literal["parameter", "buffer", "literal", "module data"]

Array = np.ndarray[Any, Any]
_BITS: Final[Mapping[int, type]] = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


@dataclass(frozen=True, eq=False)
class Stored:
    """One constant tensor."""

    name: str
    """The printed name of its value, or another name of it in the model, or its name in the module; in a module of several graphs
    prefixed with its graph's name."""
    kind: Kind
    data: TensorData
    where: Value | str
    """The input or the result of the `prim::Constant`; the name of module data."""
    node: Node | None = None
    """The `prim::Constant` of a literal."""

    @property
    def nbytes(self) -> int:
        """The bytes of its elements, each counted once."""
        return 0 if self.data.array is None else self.data.array.nbytes

    @property
    def is_trained(self) -> bool:
        """Whether a training step may change it."""
        return bool(getattr(self.data.original, "requires_grad", False))

    @cached_property
    def rows(self) -> Array:
        """The bits of the elements as unsigned integers of their size, in logical order, whatever the strides."""
        assert self.data.array is not None
        flat: Array = np.ascontiguousarray(self.data.array).reshape(-1)
        return flat.view(_BITS.get(flat.dtype.itemsize, np.uint8))

    @cached_property
    def digest(self) -> bytes:
        """A digest of sixteen bytes of the elements, which selects what to compare."""
        return digest_of(self.rows)

    def equals(self, other: Stored) -> bool:
        """Whether both have the same elements in the same logical order, bit by bit."""
        return self is other or bool(np.array_equal(self.rows, other.rows))

    @cached_property
    def turned(self) -> Array:
        """The elements of a matrix with its axes exchanged, in the form of `rows`."""
        array = self.data.array
        assert array is not None
        return np.ascontiguousarray(array.T).reshape(-1).view(self.rows.dtype)

    @cached_property
    def strides(self) -> tuple[int, ...]:
        """The strides in bytes; 0 for dimensions with one element, where they mean nothing."""
        assert self.data.array is not None
        steps = zip(self.data.array.strides, self.data.array.shape, strict=True)
        return tuple([step if extent > 1 else 0 for step, extent in steps])

    @cached_property
    def memory(self) -> tuple[int, int, int] | None:
        """The address of the first element, and the start and end of the bytes that it occupies; None where unknown."""
        array, original = self.data.array, self.data.original
        if array is None or not array.size or (original is not None and self.data.device != "cpu"):
            return None
        if original is not None and hasattr(original, "data_ptr") and original.data_ptr() != _address(array):
            return None  # the array is a copy
        low = high = _address(array)
        for step, extent in zip(array.strides, array.shape, strict=True):
            low, high = low + min(0, step * (extent - 1)), high + max(0, step * (extent - 1))
        return _address(array), low, high + array.itemsize


def digest_of(elements: Array) -> bytes:
    """Returns a digest of sixteen bytes, which selects what to compare."""
    return blake2b(np.ascontiguousarray(elements).data, digest_size=16).digest()


def _address(array: Array) -> int:
    return int(array.__array_interface__["data"][0])


def stored_in(program: Graph | Module) -> Iterator[Stored]:
    """Yields all constant tensors whose elements are known, in program order."""
    if isinstance(program, Graph):
        yield from _of_graph(program, "")
        return
    for path, graph in graphs_of(program):
        yield from _of_graph(graph, f"{path}::")
    todo = [("", program)]
    for path, module in todo:
        todo += [(f"{path}{name}::", inner) for name, inner in module.modules.items()]
        for name, payload in module.constants.items():
            data = _tensor_data(payload)
            if data is not None:
                yield Stored(path + name, "module data", data, path + name)


def _of_graph(graph: Graph, path: str) -> Iterator[Stored]:
    names = graph.names
    for value, thing in graph.bound.items():
        data = _tensor_data(thing)
        if data is not None:
            kind: Kind = "parameter" if type(thing).__name__ == "Parameter" or getattr(thing, "requires_grad", False) else "buffer"
            yield Stored(path + names[value], kind, data, value)
            for name in graph.tied.get(value.name or "", ()):
                yield Stored(path + name, kind, data, value)
    for node in graph.nodes():
        data = _tensor_data(node.attrs.get("value")) if node.op == "prim::Constant" else None
        if data is not None:
            yield Stored(path + names[node.output], "literal", data, node.output, node)


def _tensor_data(thing: Any) -> TensorData | None:
    """A tensor of any library with its elements; None for anything else, or if NumPy cannot hold its elements."""
    if isinstance(thing, TensorData):
        data = thing
    elif isinstance(thing, np.ndarray):
        data = TensorData.of(thing)
    elif hasattr(thing, "untyped_storage"):
        from irscope.frontends.torch.values import tensor_data

        data = tensor_data(thing)
    elif hasattr(thing, "__array__") and hasattr(thing, "dtype") and hasattr(thing, "shape"):
        data = TensorData(str(thing.dtype), tuple(thing.shape), np.asarray(thing), original=thing)
    else:
        return None
    return None if data.array is None or data.array.dtype.hasobject else data
