"""Fusion groups as compiled kernels: made for the types of the arguments that arrive, and looked up by them afterwards.

A plan for a group is made when all types of its inputs are known, or else at the first call. A call compares element
types, shapes and strides of what arrives, so that a kernel never runs on a layout that it was not made for. Where no
kernel can be made, the group's block runs through the library, and a remark says why.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from irscope._base.words import plural
from irscope.codegen.group_plan import spec_of_group
from irscope.codegen.kernel_spec import KernelSpec
from irscope.codegen.source import SourceText
from irscope.errors import IrscopeError
from irscope.ir.core import Node
from irscope.ir.types import BOOL, FLOAT, INT, TensorType, Type
from irscope.runtime.base import Device, Kernel, PreparedPlan
from irscope.runtime.buffers import BufferPool
from irscope.runtime.flat_code import Instruction, Slots, flatten
from irscope.runtime.library import Library
from irscope.transforms.base import Remark

__all__ = ["CompiledKernel", "GroupKernels", "Kernels", "Memory", "NumpyMemory", "TorchMemory"]


@dataclass(eq=False)
class CompiledKernel:
    """One kernel of an executable."""

    name: str
    spec: KernelSpec
    device: Device
    compile_seconds: float
    """From text to machine code, or from the disk cache."""
    from_disk: bool
    groups: list[Node] = field(default_factory=list)
    """The fusion groups that run it, in the order in which they asked for it."""

    @property
    def source(self) -> SourceText:
        """The kernel's text."""
        return self.device.source(self.spec)

    def __repr__(self) -> str:
        origin = "from the disk cache" if self.from_disk else "compiled"
        return f"<{self.name}: {origin} in {self.compile_seconds * 1e3:.1f} ms, runs {plural(len(self.groups), 'group')}>"


class Kernels:
    """All kernels of an executable, and the plans of its groups.

    With `device_of` giving each group a device of its own, equal kernels are compiled once per group.
    """

    def __init__(self, device_of: Callable[[Node], Device]) -> None:
        self.device_of = device_of
        self.compiled: list[CompiledKernel] = []
        self.remarks: list[Remark] = []
        self._by_identity: dict[int, CompiledKernel] = {}
        self._lock = threading.Lock()

    def prepare(self, group: Node, types: Sequence[Type]) -> PreparedPlan | None:
        """The plan of a group for these types; None where no kernel can be made, which leaves a remark."""
        device = self.device_of(group)
        try:
            prepared = device.prepare(spec_of_group(group, types))
        except IrscopeError as error:
            self._remark(group, error)
            return None
        with self._lock:
            for kernel in prepared.kernels:
                self._record(kernel, device, group)
        return prepared

    def _record(self, kernel: Kernel, device: Device, group: Node) -> None:
        known = self._by_identity.get(id(kernel))
        if known is None:
            spec = kernel.spec
            known = CompiledKernel(spec.name, spec, device, kernel.compile_seconds, kernel.from_disk)
            self._by_identity[id(kernel)] = known
            self.compiled.append(known)
        if group not in known.groups:
            known.groups.append(group)

    def _remark(self, group: Node, error: IrscopeError) -> None:
        because = f"its nodes run one by one: {error.what}"
        with self._lock:
            if not any(remark.subject is group and remark.because == because for remark in self.remarks):
                self.remarks.append(Remark("missed", error.rule or "no-kernel", group, because))


class GroupKernels:
    """One group: its plans by the types of the arguments."""

    def __init__(self, group: Node, kernels: Kernels) -> None:
        self.group = group
        self.kernels = kernels
        self._plans: dict[tuple[Type, ...], PreparedPlan | None] = {}
        self._lock = threading.Lock()

    def plan(self, types: tuple[Type, ...]) -> PreparedPlan | None:
        """The plan for arguments of these types, made at most once."""
        with self._lock:
            if types not in self._plans:
                self._plans[types] = self.kernels.prepare(self.group, types)
            return self._plans[types]

    def prepare_known(self) -> None:
        """Make the plan for the types that the graph says, if it says all of them."""
        types = [_plain(value.type) for value in self.group.inputs]
        if all(type in (INT, FLOAT, BOOL) or _is_full(type) for type in types):
            self.plan(tuple(types))

    def call(self, reads: tuple[int, ...], writes: tuple[int, ...], memory: Memory, library: Library) -> Instruction:
        """The instruction that runs the group on the slots `reads`."""
        plans: dict[Hashable, PreparedPlan | None] = {}
        fallback: list[Callable[[list[Any]], Sequence[Any]]] = []

        def run(slots: Slots) -> None:
            operands = [slots[slot] for slot in reads]
            key = memory.key(operands)
            plan = plans.get(key)
            if plan is None:
                if key not in plans:
                    types = memory.types(operands)
                    plan = plans[key] = None if types is None else self.plan(types)
                if plan is None:
                    if not fallback:
                        fallback.append(_by_library(self.group, library))
                    results = fallback[0](operands)
                    for slot, result in zip(writes, results, strict=True):
                        slots[slot] = result
                    return
            outputs = [memory.empty(type) for type in plan.plan.outputs]
            plan([memory.address(output) for output in outputs], memory.addresses(operands))
            for slot, output in zip(writes, outputs, strict=True):
                slots[slot] = output

        return run


def _by_library(group: Node, library: Library) -> Callable[[list[Any]], Sequence[Any]]:
    """The group's nodes one by one."""
    code = flatten(group.blocks[0], library, bound={}, call=lambda node, reads, writes: None)

    def run(operands: list[Any]) -> Sequence[Any]:
        slots = code.template.copy()
        for slot, operand in zip(code.inputs, operands, strict=True):
            slots[slot] = operand
        code.run(slots)
        return [slots[slot] for slot in code.outputs]

    return run


def _plain(type: Type) -> Type:
    """A type without what kernels do not look at."""
    return TensorType(type.dtype, type.shape, type.strides) if isinstance(type, TensorType) else type


def _is_full(type: Type) -> bool:
    return isinstance(type, TensorType) and type.is_static and type.strides is not None


class Memory:
    """How groups see operands and make results; one for torch, one for NumPy."""

    def key(self, operands: Sequence[Any]) -> Hashable:
        """What a plan depends on, cheap to make."""
        raise NotImplementedError

    def types(self, operands: Sequence[Any]) -> tuple[Type, ...] | None:
        """The operands' types; None if a kernel cannot read one of them where it lies."""
        raise NotImplementedError

    def empty(self, type: TensorType) -> Any:
        """A new tensor with undefined elements."""
        raise NotImplementedError

    def address(self, tensor: Any) -> int:
        raise NotImplementedError

    def addresses(self, operands: Sequence[Any]) -> Sequence[float]:
        """Addresses of tensors, and numbers as they are."""
        raise NotImplementedError


class TorchMemory(Memory):
    """Torch's tensors and its allocator."""

    def __init__(self, device: str, *, may_be_negated: bool = False) -> None:
        """`may_be_negated`: whether the program makes tensors whose memory holds their elements with the other sign."""
        import torch

        self.torch = torch
        self.may_be_negated = may_be_negated
        self.tensor = torch.Tensor
        self.plain = (torch.Tensor, torch.nn.Parameter)
        self.device = device
        self.dtypes = {name: getattr(torch, name) for name in _NAMES}

    def key(self, operands: Sequence[Any]) -> Hashable:
        tensor = self.tensor
        if self.may_be_negated and any(isinstance(x, tensor) and x.is_neg() for x in operands):
            return None  # no plan is ever made for it
        return tuple([
            (x.dtype, x.shape, x.stride(), x.is_cpu, x.__class__) if isinstance(x, tensor) else type(x)
            for x in operands
        ])  # fmt: skip

    def types(self, operands: Sequence[Any]) -> tuple[Type, ...] | None:
        types: list[Type] = []
        for operand in operands:
            if not isinstance(operand, self.tensor):
                types.append(_number_type(operand))
                continue
            elsewhere = operand.device.type != self.device or type(operand) not in self.plain
            if elsewhere or operand.layout != self.torch.strided or operand.is_neg() or operand.is_quantized:
                return None
            dtype = str(operand.dtype).removeprefix("torch.")
            types.append(TensorType(dtype, tuple(operand.shape), tuple(operand.stride())))
        return tuple(types)

    def empty(self, type: TensorType) -> Any:
        assert type.dtype is not None
        return self.torch.empty_strided(type.shape, type.strides, dtype=self.dtypes[type.dtype], device=self.device)

    def address(self, tensor: Any) -> int:
        return tensor.data_ptr()  # type: ignore[no-any-return]

    def addresses(self, operands: Sequence[Any]) -> Sequence[float]:
        tensor = self.tensor
        return [operand.data_ptr() if isinstance(operand, tensor) else operand for operand in operands]


class NumpyMemory(Memory):
    """NumPy's arrays, and a pool that keeps freed memory."""

    def __init__(self, pool: BufferPool) -> None:
        self.pool = pool

    def key(self, operands: Sequence[Any]) -> Hashable:
        return tuple(
            [(x.dtype, x.shape, x.strides) if isinstance(x, np.ndarray | np.generic) else type(x) for x in operands]
        )

    def types(self, operands: Sequence[Any]) -> tuple[Type, ...] | None:
        types: list[Type] = []
        for operand in operands:
            if isinstance(operand, np.generic):
                return None  # it has no address
            if not isinstance(operand, np.ndarray):
                types.append(_number_type(operand))
                continue
            item = operand.itemsize
            if not operand.dtype.isnative or any(step < 0 or step % item for step in operand.strides):
                return None
            types.append(TensorType(str(operand.dtype), operand.shape, tuple(step // item for step in operand.strides)))
        return tuple(types)

    def empty(self, type: TensorType) -> Any:
        assert type.dtype is not None
        assert type.shape is not None
        return self.pool.empty([int(dim) for dim in type.shape if isinstance(dim, int)], type.dtype, type.strides)

    def address(self, tensor: Any) -> int:
        return tensor.__array_interface__["data"][0]  # type: ignore[no-any-return]

    def addresses(self, operands: Sequence[Any]) -> Sequence[float]:
        return [self.address(x) if isinstance(x, np.ndarray) else x for x in operands]


def _number_type(value: Any) -> Type:
    return BOOL if isinstance(value, bool) else INT if isinstance(value, int) else FLOAT


_NAMES = ("float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool")
