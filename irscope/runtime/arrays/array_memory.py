"""The access of kernels to operands and the allocation of results, for torch's tensors and NumPy's arrays.

The key of a call holds all that a kernel depends on: its operands' element types, shapes and strides. It is computed for
every call of every kernel, so tenths of microseconds matter in this file: an attribute of a tensor takes 0.05,
`ctypes.data` of an array 0.7, an empty tensor 0.6.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Any, Final, Literal

import numpy as np

from irscope.codegen.kernel import ITEM_SIZE
from irscope.ir import BOOL, FLOAT, INT, TensorType, Type
from irscope.runtime.arrays.buffer_pool import BufferPool
from irscope.runtime.arrays.surroundings import Surroundings
from irscope.runtime.device import NO_MEMORY

__all__ = ["NO_MEMORY", "Memory", "NumpyMemory", "TorchMemory", "extents", "number_type"]

Allocate = Callable[[], Any]
"""Returns a new tensor with undefined elements."""

_POOLED: Final = 4 << 20
"""Bytes from which torch results are allocated from a pool: smaller ones are cheaper from torch's own allocator, whose
larger blocks cost a page fault every 4 KiB each time."""
_POOLED_ARRAY: Final = 64 << 10
"""The same for NumPy's arrays, which are aligned for vectors only if they come from a pool."""


class Memory:
    """The access of groups to operands and results; one subclass for each array library."""

    library: Literal["torch", "cupy", "numpy"]
    """The library of the tensors, and on a GPU, of the stream that their kernels run on."""
    facts: tuple[str, ...] = ()
    """The attributes and calls that an argument contributes to a signature."""
    address_text = "address({})"
    """Python source for the address of a tensor, where `address` is this memory's own method."""

    def key(self, operands: Sequence[Any]) -> Hashable:
        """Returns the key that a plan depends on, at low cost."""
        raise NotImplementedError

    def signature(self, arguments: Sequence[Any]) -> Hashable:
        """Returns all that a program's checks and plans depend on, for arguments that this memory owns; None if a number is
        among them."""
        raise NotImplementedError

    def owns(self, argument: Any) -> bool:
        """Checks whether `signature` describes this argument completely."""
        raise NotImplementedError

    def types(self, operands: Sequence[Any]) -> tuple[Type, ...] | None:
        """Returns the operands' types; None if a kernel cannot read one of them in place."""
        raise NotImplementedError

    def guard(self, arguments: Sequence[Any]) -> Callable[..., bool] | None:
        """Returns a combined check of whether other arguments equal these in all `facts`; it may reject some that do.
        None where there is no such check."""
        return None

    def is_plain(self, arguments: Sequence[Any]) -> bool:
        """Checks whether no torch mode or transform that kernels cannot see applies to a call with these owned arguments."""
        return True

    def unguarded(self, names: dict[str, Any]) -> str:
        """Returns a Python condition for the parts of the surroundings that `guard` does not see, if any."""
        return ""

    def maker(self, type: TensorType) -> Allocate:
        """Returns the allocator of tensors of a type."""
        raise NotImplementedError

    def address(self, tensor: Any) -> int:
        """Returns the address of a tensor's first element."""
        raise NotImplementedError

    def addresses(self, operands: Sequence[Any]) -> Sequence[float]:
        """Returns the addresses of tensors, and numbers unchanged."""
        raise NotImplementedError


class TorchMemory(Memory):
    """Torch's tensors and its allocator, with a pool for large results on the processor."""

    library = "torch"
    facts = ("dtype", "shape", "stride()", "is_cpu", "__class__", "is_neg()", "_is_zerotensor()")
    address_text = "{}.data_ptr()"

    def __init__(
        self, device: str, *, may_be_negated: bool = False, pool: BufferPool | None = None,
        surroundings: Surroundings | None = None,
    ) -> None:  # fmt: skip
        """`may_be_negated`: whether the program creates tensors that store their elements with the sign flipped."""
        import torch

        self.surroundings = surroundings
        self.torch = torch
        self.may_be_negated = may_be_negated
        self.pool = pool if device == "cpu" else None
        self.tensor = torch.Tensor
        self.plain = (torch.Tensor, torch.nn.Parameter)
        self.device = device
        self.dtypes = {name: getattr(torch, name) for name in ITEM_SIZE}
        self.empty = _quick_empty(torch) if device == "cpu" else None
        self.guards = _quick_guards(torch)

    def key(self, operands: Sequence[Any]) -> Hashable:
        if not self.may_be_negated:
            try:
                return tuple([(x.dtype, x.shape, x.stride(), x.is_cpu, x.__class__) for x in operands])
            except AttributeError:
                pass  # numbers among them
        tensor = self.tensor
        if self.may_be_negated and any(isinstance(x, tensor) and x.is_neg() for x in operands):
            return None  # no plan exists for it
        return tuple([
            (x.dtype, x.shape, x.stride(), x.is_cpu, x.__class__) if isinstance(x, tensor) else type(x)
            for x in operands
        ])  # fmt: skip

    def signature(self, arguments: Sequence[Any]) -> Hashable:
        try:
            return tuple([
                (x.dtype, x.shape, x.stride(), x.is_cpu, x.__class__, x.is_neg(), x._is_zerotensor())
                for x in arguments
            ])  # fmt: skip
        except AttributeError:
            return None

    def guard(self, arguments: Sequence[Any]) -> Callable[..., bool] | None:
        return None if self.guards is None else self.guards(arguments)

    def is_plain(self, arguments: Sequence[Any]) -> bool:
        return self.surroundings is None or self.surroundings.is_plain(*arguments)

    def unguarded(self, names: dict[str, Any]) -> str:
        return "" if self.surroundings is None else self.surroundings.unguarded(names)

    def owns(self, argument: Any) -> bool:
        return type(argument) in self.plain and not argument._is_zerotensor()

    def types(self, operands: Sequence[Any]) -> tuple[Type, ...] | None:
        types: list[Type] = []
        for operand in operands:
            if not isinstance(operand, self.tensor):
                types.append(number_type(operand))
                continue
            elsewhere = operand.device.type != self.device or type(operand) not in self.plain
            if elsewhere or operand.layout != self.torch.strided or operand.is_neg() or operand.is_quantized:
                return None
            dtype = str(operand.dtype).removeprefix("torch.")
            types.append(TensorType(dtype, tuple(operand.shape), tuple(operand.stride())))
        return tuple(types)

    def maker(self, type: TensorType) -> Allocate:
        assert type.dtype is not None
        shape, dtype = extents(type), self.dtypes[type.dtype]
        if self.pool is None or (type.nbytes or 0) < _POOLED:
            if self.empty is not None:
                return partial(self.empty, shape, type.strides, dtype)
            where = self.torch.device(self.device)
            pattern = self.torch.empty((), dtype=dtype, device=where).expand(shape)  # one element, whatever the shape
            if self.torch.empty_like(pattern).stride() == type.strides:
                return partial(self.torch.empty_like, pattern)  # a quarter faster than `empty_strided`
            return partial(self.torch.empty_strided, shape, type.strides, dtype=dtype, device=where)
        take = partial(self.pool.empty, shape, type.dtype, type.strides)
        wrap = self.torch.from_numpy
        return (lambda: wrap(take()).view(dtype)) if type.dtype == "bfloat16" else lambda: wrap(take())

    def address(self, tensor: Any) -> int:
        return tensor.data_ptr()  # type: ignore[no-any-return]

    def addresses(self, operands: Sequence[Any]) -> Sequence[float]:
        try:
            return [operand.data_ptr() for operand in operands]
        except AttributeError:  # numbers among them
            tensor = self.tensor
            return [operand.data_ptr() if isinstance(operand, tensor) else operand for operand in operands]


def _quick_empty(torch: Any) -> Callable[..., Any] | None:
    """Returns the allocator of Inductor's programs, at half the cost of `torch.empty_like`, if this torch has it."""
    try:
        empty: Callable[..., Any] = torch._C._dynamo.guards._empty_strided_cpu
        made = empty((2, 3), (1, 2), torch.bfloat16)
        same = (made.shape, made.stride(), made.dtype) == ((2, 3), (1, 2), torch.bfloat16) and made.is_cpu
    except Exception:  # private API of torch
        return None
    return empty if same else None


def _quick_guards(torch: Any) -> Callable[[Sequence[Any]], Callable[..., bool]] | None:
    """Returns the guard of Dynamo's programs, at a third of the cost of comparing facts, if this torch has it.

    It compares class, dispatch keys (which encode device, layout, sign and the call's surroundings), element type, shape,
    strides, and that no gradient is required."""

    def made(arguments: Sequence[Any]) -> Callable[..., bool]:
        wanted = [_without_gradient(torch, argument) for argument in arguments]
        guards = torch._C._dynamo.guards.TensorGuards(*wanted, dynamic_dims_sizes=None, dynamic_dims_strides=None)
        return guards.check  # type: ignore[no-any-return]

    try:
        like = torch.empty(2, 3)
        same = made([like])
        others = [like.t(), like[:1], like.double(), torch._neg_view(like), torch.empty(2, 3, device="meta")]
        others.append(torch.nn.Parameter(like, requires_grad=False))
        is_right = same(torch.empty(2, 3)) is True and not any(map(same, others))
    except Exception:  # private API of torch
        return None
    return made if is_right else None


def _without_gradient(torch: Any, tensor: Any) -> Any:
    """Returns a tensor of the same class that requires no gradient: a guard for one that does assumes gradients are recorded."""
    if not tensor.requires_grad:
        return tensor
    plain = tensor.detach()
    return torch.nn.Parameter(plain, requires_grad=False) if isinstance(tensor, torch.nn.Parameter) else plain


class NumpyMemory(Memory):
    """NumPy's arrays, and a pool that keeps freed memory."""

    library = "numpy"
    facts = ("dtype", "shape", "strides", "__class__")

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

    def signature(self, arguments: Sequence[Any]) -> Hashable:
        try:
            return tuple([(x.dtype, x.shape, x.strides, x.__class__) for x in arguments])
        except AttributeError:
            return None

    def owns(self, argument: Any) -> bool:
        return type(argument) is np.ndarray and argument.dtype.isnative

    def types(self, operands: Sequence[Any]) -> tuple[Type, ...] | None:
        types: list[Type] = []
        for operand in operands:
            if isinstance(operand, np.generic):
                return None  # it has no address
            if not isinstance(operand, np.ndarray):
                types.append(number_type(operand))
                continue
            item = operand.itemsize
            if not operand.dtype.isnative or any(step < 0 or step % item for step in operand.strides):
                return None
            types.append(TensorType(str(operand.dtype), operand.shape, tuple(step // item for step in operand.strides)))
        return tuple(types)

    def maker(self, type: TensorType) -> Allocate:
        assert type.dtype is not None
        shape = extents(type)
        if (type.nbytes or 0) < _POOLED_ARRAY and type.dtype != "bfloat16" and _is_row_major(shape, type.strides):
            return partial(np.empty, shape, np.dtype(type.dtype))
        return partial(self.pool.empty, shape, type.dtype, type.strides)

    def address(self, tensor: Any) -> int:
        return _address(tensor)

    def addresses(self, operands: Sequence[Any]) -> Sequence[float]:
        return [_address(x) if isinstance(x, np.ndarray) else x for x in operands]


_no_bytes: Final = (ctypes.c_char * 0).from_buffer
_address_of: Final = ctypes.addressof


def _address(array: Any) -> int:
    """Returns the address of an array's first element: from its buffer, or slowly for one that is read-only or not contiguous."""
    try:
        return _address_of(_no_bytes(array))
    except (TypeError, ValueError, BufferError):
        return array.__array_interface__["data"][0]  # type: ignore[no-any-return]


def number_type(value: Any) -> Type:
    """Returns the type of a number among a group's operands."""
    return BOOL if isinstance(value, bool) else INT if isinstance(value, int) else FLOAT


def extents(type: TensorType) -> tuple[int, ...]:
    """Returns the sizes of a result, which a plan always knows."""
    assert type.shape is not None
    assert type.is_static, "the results of a plan have known sizes"
    return tuple(int(dim) for dim in type.shape if isinstance(dim, int))


def _is_row_major(shape: tuple[int, ...], strides: Sequence[int] | None) -> bool:
    """Checks whether an array of this shape is row-major with these strides."""
    step = 1
    for size, stride in zip(reversed(shape), reversed(strides or ()), strict=False):
        if stride != step:
            return False
        step *= size
    return True
