"""How kernels see operands and make results: the tensors of torch and the arrays of NumPy.

What a kernel needs to know of its operands is in the key of a call: element types, shapes and strides. The key is made
anew for every call of every kernel, so that this file counts tenths of microseconds: an attribute of a tensor takes 0.05,
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
"""Gives a new tensor with undefined elements."""

_POOLED: Final = 4 << 20
"""Bytes from which a result of torch's comes from a pool: a smaller one is cheaper from torch's own allocator, whose
larger blocks cost a page fault every 4 KiB each time."""
_POOLED_ARRAY: Final = 64 << 10
"""The same for NumPy's arrays, which are aligned for vectors only if they come from a pool."""


class Memory:
    """How groups see operands and make results; one for torch, one for NumPy."""

    library: Literal["torch", "cupy", "numpy"]
    """Whose tensors these are, and on a GPU, whose stream their kernels run on."""
    facts: tuple[str, ...] = ()
    """The attributes and calls of an argument that its part of a signature has."""
    address_text = "address({})"
    """Python for the address of a tensor, if `address` is this memory's own."""

    def key(self, operands: Sequence[Any]) -> Hashable:
        """What a plan depends on, cheap to make."""
        raise NotImplementedError

    def signature(self, arguments: Sequence[Any]) -> Hashable:
        """All that a program's checks and plans depend on, of arguments that this memory owns; None if a number is among
        them."""
        raise NotImplementedError

    def owns(self, argument: Any) -> bool:
        """Whether `signature` says all of this argument."""
        raise NotImplementedError

    def types(self, operands: Sequence[Any]) -> tuple[Type, ...] | None:
        """The operands' types; None if a kernel cannot read one of them where it lies."""
        raise NotImplementedError

    def guard(self, arguments: Sequence[Any]) -> Callable[..., bool] | None:
        """What tells at one stroke whether as many others are like these in all `facts`; it may say no of some that are.
        None where there is nothing of the kind."""
        return None

    def is_plain(self, arguments: Sequence[Any]) -> bool:
        """Whether nothing surrounds a call with these arguments, which it owns, that kernels do not see."""
        return True

    def unguarded(self, names: dict[str, Any]) -> str:
        """A condition in Python for what `guard` does not see of the surroundings, if anything."""
        return ""

    def maker(self, type: TensorType) -> Allocate:
        """What makes tensors of a type."""
        raise NotImplementedError

    def address(self, tensor: Any) -> int:
        """Where its first element lies."""
        raise NotImplementedError

    def addresses(self, operands: Sequence[Any]) -> Sequence[float]:
        """Addresses of tensors, and numbers as they are."""
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
        """`may_be_negated`: whether the program makes tensors whose memory holds their elements with the other sign."""
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
            return None  # no plan is ever made for it
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
                return partial(self.torch.empty_like, pattern)  # a quarter quicker than naming all of it
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
    """What Inductor's programs make their results with, at half the price of `torch.empty_like`, if this torch has it."""
    try:
        empty: Callable[..., Any] = torch._C._dynamo.guards._empty_strided_cpu
        made = empty((2, 3), (1, 2), torch.bfloat16)
        same = (made.shape, made.stride(), made.dtype) == ((2, 3), (1, 2), torch.bfloat16) and made.is_cpu
    except Exception:  # it is torch's own affair
        return None
    return empty if same else None


def _quick_guards(torch: Any) -> Callable[[Sequence[Any]], Callable[..., bool]] | None:
    """What Dynamo's programs compare their arguments by, at a third of the price, if this torch has it: it looks at class,
    dispatch keys (which tell device, layout, sign, and what surrounds the call), element type, shape, strides, and that no
    gradient is wanted."""

    def made(arguments: Sequence[Any]) -> Callable[..., bool]:
        wanted = [_without_gradient(torch, argument) for argument in arguments]
        guards = torch._C._dynamo.guards.TensorGuards(*wanted, dynamic_dims_sizes=None, dynamic_dims_strides=None)
        return guards.check  # type: ignore[no-any-return]

    try:
        like = torch.empty(2, 3)
        same = made([like])
        others = [like.t(), like[:1], like.double(), torch._neg_view(like), torch.empty(2, 3, device="meta")]
        others.append(torch.nn.Parameter(like, requires_grad=False))
        tells = same(torch.empty(2, 3)) is True and not any(map(same, others))
    except Exception:  # it is torch's own affair
        return None
    return made if tells else None


def _without_gradient(torch: Any, tensor: Any) -> Any:
    """One of the same class that wants none: a guard takes it that a tensor which does is met where gradients are recorded."""
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
    """Where an array's first element lies: by its buffer, or slowly for one that is read-only or not contiguous."""
    try:
        return _address_of(_no_bytes(array))
    except (TypeError, ValueError, BufferError):
        return array.__array_interface__["data"][0]  # type: ignore[no-any-return]


def number_type(value: Any) -> Type:
    """The type of a number among a group's operands."""
    return BOOL if isinstance(value, bool) else INT if isinstance(value, int) else FLOAT


def extents(type: TensorType) -> tuple[int, ...]:
    """The sizes of a result, which a plan always knows."""
    assert type.shape is not None
    assert type.is_static, "the results of a plan have known sizes"
    return tuple(int(dim) for dim in type.shape if isinstance(dim, int))


def _is_row_major(shape: tuple[int, ...], strides: Sequence[int] | None) -> bool:
    """Whether an array of this shape lies row after row with these strides."""
    step = 1
    for size, stride in zip(reversed(shape), reversed(strides or ()), strict=False):
        if stride != step:
            return False
        step *= size
    return True
