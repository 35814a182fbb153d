"""NumPy's references of the ops, and NumPy's arrays: what runs a program without torch."""

import ctypes
import sys
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Any, Final

import numpy as np

from irscope.ir import Node, TensorData, TensorType, Type
from irscope.ops.op import PYTHON_CATEGORIES
from irscope.ops.registry import op_of, schema_of
from irscope.ops.type_rules import contiguous_strides
from irscope.runtime.arrays.library import (
    Allocate,
    Function,
    Library,
    Memory,
    elements,
    extents,
    number_type,
    python_function,
    strided_type,
    unknown_op,
    without_elements,
)
from irscope.runtime.arrays.numpy_calls import by_position, decided
from irscope.runtime.arrays.pool import BufferPool
from irscope.runtime.foreign_ops import foreign_function

_POOLED_ARRAY: Final = 64 << 10
"""The same for NumPy's arrays, which are aligned for vectors only if they come from a pool."""


class NumpyLibrary(Library):
    """The NumPy references of `irscope.ops`."""

    name = "numpy"

    def __init__(self, *, lend: Callable[[Node], Function | None] = lambda node: None) -> None:
        """`lend` returns another library's function of NumPy arrays for an op without a reference, if there is one."""
        self.lend = lend

    def function(self, node: Node) -> Function:
        native = python_function(node)
        if native is not None:
            return native
        op, schema = op_of(node), schema_of(node)
        if op is None or op.reference is None:
            found = foreign_function(node) or self.lend(node)
            if found is None:
                raise unknown_op(node, "NumPy")
            return found
        reference = op.reference
        if node.op == "prim::NumToTensor":
            return np.asarray
        if schema is None and op.schemas:
            return self._chosen_at_each_call(node, reference)
        if schema is None or schema.is_vararg:
            return reference
        names = [argument.name for argument in schema.arguments]
        rest = {argument.name: argument.default for argument in schema.arguments[len(node.inputs) :]}
        if op.category in PYTHON_CATEGORIES and not rest:
            return lambda *given: reference(**dict(zip(names, given, strict=True)))
        makes_array = len(node.outputs) == 1 and isinstance(node.outputs[0].type, TensorType)
        given = names[: len(node.inputs)]
        return decided(op, given, rest, by_position(reference, given, rest, makes_array=makes_array))

    def _tensor(self, payload: TensorData) -> Any:
        if payload.array is None:
            raise without_elements(payload)
        return elements(payload)


class NumpyMemory(Memory):
    """NumPy's arrays, and a pool that keeps freed memory."""

    library = "numpy"
    facts: tuple[str, ...] = ("__class__", "dtype", "shape", "strides")

    def __init__(self, pool: BufferPool) -> None:
        self.pool = pool

    def key(self, operands: Sequence[Any]) -> Hashable:
        try:
            return tuple([(x.dtype, x.shape, x.strides, x.__class__) for x in operands])
        except AttributeError:  # Python's numbers among them
            return tuple([
                (x.dtype, x.shape, x.strides, x.__class__) if isinstance(x, np.ndarray | np.generic) else type(x)
                for x in operands
            ])  # fmt: skip

    def owns(self, argument: Any) -> bool:
        return type(argument) is np.ndarray and argument.dtype.isnative and argument.dtype.isbuiltin == 1  # none of `ml_dtypes`

    def type_of(self, operand: Any) -> Type | None:
        if isinstance(operand, np.generic):
            return None  # it has no address
        if not isinstance(operand, np.ndarray):
            return number_type(operand)
        return strided_type(operand) if operand.dtype.isnative else None

    def maker(self, type: TensorType) -> Allocate:
        assert type.dtype is not None
        shape = extents(type)
        if (type.nbytes or 0) < _POOLED_ARRAY and type.dtype != "bfloat16" and type.strides in (None, contiguous_strides(shape)):
            return partial(np.empty, shape, np.dtype(type.dtype))
        return partial(self.pool.empty, shape, type.dtype, type.strides)

    def address(self, tensor: Any) -> int:
        if _IS_FIRST:
            return _word(id(tensor) + _HEAD).value
        return tensor.__array_interface__["data"][0]  # type: ignore[no-any-return]


# The address of an array is the first word of its object, after what all objects have. It takes a tenth of a microsecond to read, and
# 0.6 by the buffer protocol, 3 by `__array_interface__`, which an array that is read-only or not contiguous needs (NumPy 2.4).
_word: Final = ctypes.c_ssize_t.from_address
_HEAD: Final = object.__basicsize__
_IS_FIRST: Final = sys.implementation.name == "cpython" and all(
    _word(id(probe) + _HEAD).value == probe.__array_interface__["data"][0] for probe in (np.zeros(3), np.zeros((3, 2))[1:, ::-1])
)
