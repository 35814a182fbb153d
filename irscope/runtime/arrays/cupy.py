"""Arrays on a GPU for a program without torch: CuPy's, and those of other libraries that share memory by DLPack.

NumPy arguments, and all other arrays on the processor, are copied to the GPU, and results are copied back; JAX's arrays
and all others with `__dlpack__` are used without a copy if they are on a GPU. Results are of the same kind as the first
array among the arguments.

Nodes without a kernel run NumPy's references on copies: CuPy refuses every implicit transfer from the GPU to the processor, so
a reference written for NumPy does not run on its arrays. Each operand is copied, NumPy computes, and the results and in-place
writes are copied back: correct but slow. Views keep sharing memory without a copy: a reference first runs on operands of the same
strides with undefined elements, and where its result is a view of one of them, the same view of the array on the GPU is built.
If a program spends time in such nodes, install torch.
"""

import sys
import threading
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from importlib import import_module
from typing import Any, Final

import numpy as np

from irscope._base.nested import leaves
from irscope.codegen.kernel import ITEM_SIZE
from irscope.errors import ArgumentError, MissingExtra
from irscope.ir import Node, TensorData, TensorType, Type
from irscope.ops.registry import op_of, schema_of
from irscope.runtime.arrays.dlpack import host_array, is_jaxs, on_processor
from irscope.runtime.arrays.library import Allocate, Memory, extents, is_torch_tensor, number_type, strided_type
from irscope.runtime.arrays.numpy import NumpyLibrary

_PYTHONS: Final = ("container", "control")
"""Categories of ops that keep their operands by identity, and read no element."""


def imported_cupy() -> Any:
    """Imports CuPy. Raises MissingExtra."""
    try:
        import cupy
    except ImportError:
        raise MissingExtra("cupy", extra="cuda13", purpose="to compile and run kernels of a GPU") from None
    return cupy


def is_cupys(value: object) -> bool:
    """Checks whether this is a CuPy array; does not import CuPy."""
    cupy = sys.modules.get("cupy")
    return cupy is not None and isinstance(value, cupy.ndarray)


def device_with(values: Iterable[object]) -> str:
    """Returns the device that arguments lie on: "cuda" if any is, or holds, a CuPy array or a torch tensor there, else "cpu"."""
    there = any(is_cupys(leaf) or (is_torch_tensor(leaf) and leaf.is_cuda) for leaf in leaves(list(values)))
    return "cuda" if there else "cpu"


def off_the_gpu(value: Any) -> Any:
    """Returns a CuPy array as a NumPy array, a copy; anything else unchanged."""
    return sys.modules["cupy"].asnumpy(value) if is_cupys(value) else value


class CupyMemory(Memory):
    """CuPy's arrays and its allocator."""

    library = "cupy"
    facts = ("__class__", "dtype", "shape", "strides")

    def __init__(self, cupy: Any) -> None:
        self.cupy = cupy
        self._threads = threading.local()
        self.in_use: deque[tuple[Any, list[Any]]] = deque()
        """Arrays of other libraries that kernels may still read, and the event after those kernels: their library would
        reuse the memory for work on its own streams, which are not ordered after ours."""

    def key(self, operands: Sequence[Any]) -> Hashable:
        array = self.cupy.ndarray
        return tuple([(x.dtype, x.shape, x.strides) if isinstance(x, array) else type(x) for x in operands])

    def owns(self, argument: Any) -> bool:
        return type(argument) is self.cupy.ndarray

    def type_of(self, operand: Any) -> Type | None:
        return strided_type(operand) if isinstance(operand, self.cupy.ndarray) else number_type(operand)

    def maker(self, type: TensorType) -> Allocate:
        assert type.dtype is not None
        shape, cupy, dtype = extents(type), self.cupy, dtype_of(type.dtype)
        steps = tuple(step * dtype.itemsize for step in type.strides or ())
        nbytes = max(1, ITEM_SIZE[type.dtype] * int(np.prod(shape, dtype=np.int64)))
        return lambda: cupy.ndarray(shape, dtype, memptr=cupy.cuda.alloc(nbytes), strides=steps)

    def address(self, tensor: Any) -> int:
        return tensor.data.ptr  # type: ignore[no-any-return]

    def adopted(self, value: Any, *, may_write: bool = False) -> Any:
        """Returns an argument on the GPU: shared if it is there and offers DLPack, copied from the processor otherwise.

        An array of JAX's, which is immutable, is copied for a program that may write it.
        """
        if isinstance(value, self.cupy.ndarray):
            return value
        if isinstance(value, np.ndarray | np.generic):
            return self.cupy.asarray(value)
        if not hasattr(value, "__dlpack__"):
            return value
        if on_processor(value):
            return self.cupy.asarray(host_array(value))
        shared = self.cupy.from_dlpack(value)
        self._threads.shared = [*getattr(self._threads, "shared", ()), shared]
        return shared.copy() if may_write and is_jaxs(value) else shared

    def given_back(self, arguments: Sequence[Any], results: Sequence[Any]) -> tuple[Any, ...]:
        """Returns the results as the arguments' kind of array; keeps shared arguments alive until the kernels are done."""
        shared, self._threads.shared = getattr(self._threads, "shared", []), []
        if shared:
            self.in_use.append((self.cupy.cuda.get_current_stream().record(), shared))
        while self.in_use and self.in_use[0][0].done:
            self.in_use.popleft()
        return tuple(map(giver_back(arguments, self.cupy), results))


def dtype_of(name: str) -> np.dtype[Any]:
    """Returns NumPy's element type of this name; bfloat16 comes from a separate package, which JAX and CuPy use too."""
    if name != "bfloat16":
        return np.dtype(name)
    try:
        found: np.dtype[Any] = np.dtype(import_module("ml_dtypes").bfloat16)
        return found
    except ImportError:
        raise ArgumentError(
            "NumPy and CuPy have no bfloat16 without the package ml_dtypes",
            hint="pip install ml_dtypes, or load the program from torch and pass tensors", rule="no-dtype",
        ) from None  # fmt: skip


def giver_back(arguments: Sequence[Any], cupy: Any) -> Callable[[Any], Any]:
    """Returns the conversion of a result to the arguments' kind of array; to NumPy's if no argument is an array."""
    first = next((x for x in arguments if hasattr(x, "shape") and hasattr(x, "dtype")), None)
    if isinstance(first, cupy.ndarray):
        return lambda result: result
    back: Callable[[Any], Any] = cupy.asnumpy
    if is_jaxs(first):
        jax = sys.modules["jax"]
        if on_processor(first):
            back = lambda result: jax.numpy.asarray(cupy.asnumpy(result))  # noqa: E731
        else:  # JAX's arrays have no strides
            back = lambda result: jax.dlpack.from_dlpack(cupy.ascontiguousarray(result))  # noqa: E731
    return lambda result: back(result) if isinstance(result, cupy.ndarray) else result


class CupyLibrary(NumpyLibrary):
    """The NumPy references for CuPy's arrays."""

    def __init__(self, cupy: Any, *, lend: Callable[[Node], Callable[..., Any] | None] = lambda node: None) -> None:
        super().__init__(lend=lend)
        self.cupy = cupy

    def function(self, node: Node) -> Callable[..., Any]:
        reference = super().function(node)
        op, schema = op_of(node), schema_of(node)
        if op is not None and op.category in _PYTHONS:
            return reference
        arguments = () if schema is None else schema.arguments[: len(node.inputs)]
        written = [number for number, argument in enumerate(arguments) if argument.alias and argument.alias.is_write]
        may_view = not written and (schema is None or any(result.alias is not None for result in schema.returns))

        def run(*given: Any) -> Any:
            if may_view:
                shadows = _Shadows(self.cupy, given, copied=False)
                with np.errstate(all="ignore"):
                    found = reference(*shadows.operands)
                seen = shadows.back(found, only_views=True)
                if seen is not None:
                    return seen
            shadows = _Shadows(self.cupy, given, copied=True)
            result = reference(*shadows.operands)
            for number in written:
                shadows.write_back(given[number], shadows.operands[number])
            return shadows.back(result)

        return run

    def _tensor(self, payload: TensorData) -> Any:
        return self.cupy.asarray(super()._tensor(payload))


class _Shadows:
    """Copies of the operands on the processor, with the strides of the originals on the GPU."""

    def __init__(self, cupy: Any, given: Sequence[Any], *, copied: bool) -> None:
        """`copied`: whether the elements are copied too, rather than undefined."""
        self.cupy = cupy
        self.copied = copied
        self.pairs: list[tuple[Any, np.ndarray[Any, Any], np.ndarray[Any, Any]]] = []
        """An array on the GPU, its shadow, and the shadow's memory."""
        self.operands = [self._shadow(value) for value in given]

    def _shadow(self, value: Any) -> Any:
        if isinstance(value, list | tuple):
            return type(value)([self._shadow(item) for item in value])
        if not isinstance(value, self.cupy.ndarray):
            return value
        for array, shadow, _ in self.pairs:
            if array is value:
                return shadow
        reach = [(size - 1) * step for size, step in zip(value.shape, value.strides, strict=True)] if value.size else []
        before = -sum(step for step in reach if step < 0)
        memory = np.empty(before + sum(step for step in reach if step > 0) + value.itemsize, np.uint8)
        shadow = np.ndarray(value.shape, value.dtype, memory, before, value.strides)
        if self.copied:
            shadow[...] = self.cupy.asnumpy(value)
        self.pairs.append((value, shadow, memory))
        return shadow

    def write_back(self, value: Any, shadow: Any) -> None:
        """Copies what NumPy wrote back to the GPU."""
        if isinstance(value, list | tuple):
            for one, other in zip(value, shadow, strict=True):
                self.write_back(one, other)
        elif isinstance(value, self.cupy.ndarray):
            value[...] = self.cupy.asarray(shadow)

    def back(self, result: Any, *, only_views: bool = False) -> Any:
        """Returns a result on the GPU: the operand itself, a view of it, or a copy; None for a copy if only views count."""
        if isinstance(result, list | tuple):
            found = [self.back(item, only_views=only_views) for item in result]
            return None if only_views and any(item is None for item in found) else type(result)(found)
        if isinstance(result, np.ndarray):
            for array, shadow, memory in self.pairs:
                if result is shadow:
                    return array
                if result.size and np.may_share_memory(result, memory):
                    place = array.data + (result.ctypes.data - shadow.ctypes.data)
                    return self.cupy.ndarray(result.shape, result.dtype, place, result.strides)
        if only_views:
            return None
        return self.cupy.asarray(result) if isinstance(result, np.ndarray | np.generic) else result
