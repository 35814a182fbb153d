"""A program made runnable: fusion groups as compiled kernels, everything else through torch or NumPy, in program order.

In-place ops, views, containers and control flow mean what they mean in the program; parameters and buffers are the
model's own tensors, so that what the program writes into them stays written.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, Final

import numpy as np

from irscope._base.words import plural
from irscope.codegen.source import SourceText
from irscope.errors import ArgumentError, DeviceUnavailable, UnknownName
from irscope.ir.arguments import graph_of, spread
from irscope.ir.core import Graph, Node, Value
from irscope.ir.payload import argument_type
from irscope.ir.types import BOOL, FLOAT, INT, NONE, STR, TensorType, Type
from irscope.ops.registry import category_of
from irscope.runtime.base import Device
from irscope.runtime.base import device as device_named
from irscope.runtime.buffers import BufferPool
from irscope.runtime.cache import ObjectStore
from irscope.runtime.cpu import CpuDevice
from irscope.runtime.flat_code import FlatCode, Instruction, flatten
from irscope.runtime.groups import CompiledKernel, GroupKernels, Kernels, Memory, NumpyMemory, TorchMemory
from irscope.runtime.library import Library, TorchLibrary, is_torch_tensor, library_for
from irscope.transforms.base import Remark

__all__ = ["Executable", "compile_graph"]

_LAUNCHING: Final = ("pointwise", "reduction", "normalization", "matmul", "convolution", "memory", "random")
"""Categories of ops that run at least one kernel of the library's."""
_NEGATING: Final = ("aten::imag", "aten::_neg_view")
"""Ops whose results torch may hold with the other sign in memory."""


def compile_graph(
    program: Any, device: str = "cpu", *, share_kernels: bool = True, disk_cache: bool = True, use_kernels: bool = True,
) -> Executable:  # fmt: skip
    """Make a graph, or the graph of a fusion, runnable on `"cpu"`, `"cuda"` or `"reference"`.

    Groups whose types are known are compiled now, the others when they first run. With `share_kernels=False` every
    group gets a kernel of its own; with `disk_cache=False` nothing that an earlier process compiled is used; with
    `use_kernels=False` the nodes of groups run one by one through the library. Raises DeviceUnavailable.
    """
    graph = graph_of(program, "compile")
    start = time.perf_counter()
    made = Executable(graph, device, _devices(device, share_kernels, disk_cache) if use_kernels else None)
    made.prepare()
    made.compile_seconds = time.perf_counter() - start
    return made


def _devices(name: str, share: bool, disk_cache: bool) -> Callable[[Node], Device]:
    """The device that compiles each group's kernels."""
    if name == "reference":
        return lambda group: device_named("numpy")
    first = _device(name, disk_cache)
    if share:
        return lambda group: first
    return lambda group: _device(name, disk_cache)


def _device(name: str, disk_cache: bool) -> Device:
    device = device_named(name)
    availability = device.availability()
    if isinstance(device, CpuDevice):
        if not availability:
            return device_named("numpy")
        return device if disk_cache else CpuDevice(store=_NoStore(device.store.directory))
    if not availability:
        raise DeviceUnavailable(f"the device {name!r} cannot run here: {availability.what}", hint=availability.fix)
    return device


def _no_device(group: Node) -> Device:
    raise AssertionError("an executable without kernels compiles none")


class _NoStore(ObjectStore):
    """Keeps nothing."""

    def load(self, key: str) -> bytes | None:
        return None

    def save(self, key: str, payload: bytes) -> bool:
        return False


class Executable:
    """A compiled program: call it with one argument for each input that is not bound, from any number of threads.

    A nested argument may stand for its parts.

    Gives the program's result, or a tuple of them; tensors are torch's if any argument or parameter is, else NumPy's.
    """

    def __init__(self, graph: Graph, device: str, device_of: Callable[[Node], Device] | None) -> None:
        """`device_of` gives the device that compiles a group's kernels; None runs groups through the library."""
        self.graph = graph
        self.device = device
        self.compile_seconds = 0.0
        """How long it took to plan the program and to compile the kernels that were known beforehand."""
        self._kernels = Kernels(device_of or _no_device)
        fused = [node for node in graph.nodes() if node.op == "prim::FusionGroup"] if device_of is not None else []
        self._groups = {node: GroupKernels(node, self._kernels) for node in fused}
        self._free = graph.free_inputs
        self._checks = [_check_of(value, graph.names[value]) for value in self._free]
        self._floats = frozenset(index for index, value in enumerate(self._free) if value.type == FLOAT)
        self._programs: dict[str, _Program] = {}
        self._lock = threading.Lock()
        self._bound_library = library_for(list(graph.bound.values())).name

    def prepare(self) -> None:
        """Compile the kernels of all groups whose types the graph says."""
        if self.device != "reference":
            for group in self._groups.values():
                group.prepare_known()

    @property
    def kernels(self) -> tuple[CompiledKernel, ...]:
        """Every kernel compiled so far; groups of unknown shapes add theirs when they first run."""
        return tuple(self._kernels.compiled)

    @property
    def remarks(self) -> tuple[Remark, ...]:
        """Groups that run without a kernel, and why."""
        return tuple(self._kernels.remarks)

    def source(self, index: int = 0) -> SourceText:
        """The text of a kernel. Raises UnknownName for a number that none has."""
        compiled = self._kernels.compiled
        try:
            return compiled[index].source
        except (IndexError, TypeError):
            made = f"there are {len(compiled)}, counted from 0" if compiled else "no kernel has been compiled yet"
            raise UnknownName(f"there is no kernel {index!r}", hint=made) from None

    def __call__(self, *args: Any) -> Any:
        """Run. Raises ArgumentError for arguments that the program was not loaded for, RunError when an op fails."""
        return self.run(args)

    def run(self, args: Sequence[Any], *, launched: Callable[[Node], object] | None = None) -> Any:
        """Run, with `launched` called for each node that launches a kernel, ours or the library's, before it does."""
        args = spread(args, len(self._free))
        self._check(args)
        if self._floats:  # a program that wants a float computes with one, as in TorchScript
            args = tuple(float(arg) if index in self._floats else arg for index, arg in enumerate(args))
        if self.device == "reference":
            return self._interpret(args)
        torch = self._bound_library == "torch" or library_for(args).name == "torch"
        visit = None if launched is None else partial(self._visit, launched)
        results = self._program("torch" if torch else "numpy").run(args, visit)
        return results[0] if len(results) == 1 else results

    def launches(self, *args: Any) -> int:
        """How many kernels one run launches, ours and the library's; it runs the program to count them."""
        nodes: list[Node] = []
        self.run(args, launched=nodes.append)
        return len(nodes)

    def _visit(self, launched: Callable[[Node], object], node: Node) -> None:
        if node in self._groups or category_of(node) in _LAUNCHING:
            launched(node)

    def _program(self, library: str) -> _Program:
        with self._lock:
            if library not in self._programs:
                self._programs[library] = _Program(self.graph, self._groups, library, self.device)
            return self._programs[library]

    def _interpret(self, args: Sequence[Any]) -> Any:
        from irscope.runtime.reference import run_reference

        results = run_reference(self.graph, *args)
        if self._bound_library == "torch" or library_for(args).name == "torch":
            results = tuple(_as_torch(result) for result in results)
        return results[0] if len(results) == 1 else results

    def _check(self, args: Sequence[Any]) -> None:
        if len(args) != len(self._free):
            inputs = ", ".join(f"%{self.graph.names[value]} : {value.type}" for value in self._free) or "none"
            raise ArgumentError(
                f"{self.graph.name} takes {len(self._free)} argument{'s' * (len(self._free) != 1)} and got {len(args)}",
                where=f"inputs: {inputs}",
                hint="pass one argument per input that is not a parameter, in order",
            )
        symbols: dict[str, int] = {}
        for check, argument in zip(self._checks, args, strict=True):
            if check is not None:
                check(argument, symbols)

    def __repr__(self) -> str:
        counts = f"{plural(len(self._groups), 'group')}, {plural(len(self.kernels), 'kernel')}"
        return (
            f"<Executable {self.graph.name!r} on {self.device}: {counts}, "
            f"compiled in {self.compile_seconds * 1e3:.0f} ms>"
        )


class _Program:
    """The flat code of a graph for one library."""

    def __init__(self, graph: Graph, groups: Mapping[Node, GroupKernels], library: str, device: str) -> None:
        self.graph = graph
        self.context: Callable[[], AbstractContextManager[Any]] = nullcontext
        self.library: Library
        self.memory: Memory
        self.is_torch = library == "torch"
        self.move_to = "cuda" if device == "cuda" else ""
        if self.is_torch:
            self.library = TorchLibrary(device=self.move_to)
            negated = any(node.op in _NEGATING for node in graph.nodes())
            self.context = self.library.torch.no_grad
            self.memory = TorchMemory(self.move_to or "cpu", may_be_negated=negated)
        else:
            self.library, self.memory = library_for(()), NumpyMemory(BufferPool())
        bound = {
            value: held if isinstance(held, list | dict) else self._moved(held) for value, held in graph.bound.items()
        }
        self.code: FlatCode = flatten(graph.body, self.library, bound=bound, call=self._call(groups))
        self.slots = tuple(
            slot for slot, value in zip(self.code.inputs, graph.inputs, strict=True) if value not in graph.bound
        )

    def run(self, args: Sequence[Any], visit: Callable[[Node], None] | None) -> tuple[Any, ...]:
        slots = self.code.template.copy()
        for slot, argument in zip(self.slots, args, strict=True):
            slots[slot] = self._moved(argument)
        with self.context():
            self.code.run(slots, visit)
        return tuple([slots[slot] for slot in self.code.outputs])

    def _call(self, groups: Mapping[Node, GroupKernels]) -> Callable[..., Instruction | None]:
        def call(node: Node, reads: tuple[int, ...], writes: tuple[int, ...]) -> Instruction | None:
            group = groups.get(node)
            return None if group is None else group.call(reads, writes, self.memory, self.library)

        return call

    def _moved(self, value: Any) -> Any:
        """The value as the library has it: arrays become tensors that share their memory, containers are copied.

        A program thus writes its arguments' elements, and not the caller's lists, as it is with TorchScript.
        """
        if isinstance(value, list):
            return [self._moved(item) for item in value]
        if isinstance(value, tuple):
            return tuple(self._moved(item) for item in value)
        if isinstance(value, dict):
            return {key: self._moved(item) for key, item in value.items()}
        if self.is_torch and isinstance(value, np.ndarray | np.generic):
            value = _as_torch(value)
        if isinstance(self.memory, TorchMemory) and is_torch_tensor(value) and value.is_neg():
            self.memory.may_be_negated = True
        return value.to(self.move_to) if self.move_to and is_torch_tensor(value) else value


def _as_torch(value: Any) -> Any:
    """An array as a tensor that shares its memory, also inside lists, tuples and dictionaries."""
    import torch

    if isinstance(value, list | tuple):
        return type(value)([_as_torch(item) for item in value])
    if isinstance(value, dict):
        return {key: _as_torch(item) for key, item in value.items()}

    return torch.from_numpy(np.asarray(value)) if isinstance(value, np.ndarray | np.generic) else value


_NoneType: Final = type(None)
_Check = Callable[[Any, dict[str, int]], None]


_KINDS: Final[Mapping[Type, tuple[Any, ...]]] = {
    INT: (int,), FLOAT: (float, int), BOOL: (bool,), STR: (str,), NONE: (_NoneType,),
}  # fmt: skip


def _check_of(value: Value, name: str) -> _Check | None:
    """What an argument must be: for a tensor all that its type says. The dictionary has the extents of symbols."""
    type = value.type
    if isinstance(type, TensorType):
        return _tensor_check(type, name)
    wanted = _KINDS.get(type)
    if wanted is None:
        return None

    def check(argument: Any, symbols: dict[str, int]) -> None:
        if not isinstance(argument, wanted) or (type == INT and isinstance(argument, bool)):
            raise _wrong(name, type, argument)

    return check


def _tensor_check(type: TensorType, name: str) -> _Check:
    """The check of one tensor, which remembers what it has accepted: looking closely takes microseconds."""
    if not type.is_static:
        return lambda argument, symbols: _check_tensor(type, name, argument, symbols)
    accepted: set[Hashable] = set()

    def check(argument: Any, symbols: dict[str, int]) -> None:
        step = getattr(argument, "stride", None)
        seen = None
        if step is not None:
            seen = (argument.dtype, argument.shape, step())
        elif isinstance(argument, np.ndarray):
            seen = (argument.dtype, argument.shape, argument.strides)
        if seen is None or seen not in accepted:
            _check_tensor(type, name, argument, symbols)
            accepted.add(seen)

    return check


def _check_tensor(type: TensorType, name: str, argument: Any, symbols: dict[str, int]) -> None:
    if not hasattr(argument, "dtype") or not hasattr(argument, "shape"):
        raise _wrong(name, type, argument)
    dtype = str(argument.dtype).removeprefix("torch.")
    if type.dtype is not None and dtype != type.dtype:
        raise _wrong(name, type, argument)
    if type.shape is None:
        return
    shape = tuple(argument.shape)
    if len(shape) != len(type.shape):
        raise _wrong(name, type, argument)
    for wanted, given in zip(type.shape, shape, strict=True):
        if wanted is not None and given != (symbols.setdefault(wanted, given) if isinstance(wanted, str) else wanted):
            raise _wrong(name, type, argument)
    if type.strides is not None:
        given_type = argument_type(argument)
        assert isinstance(given_type, TensorType)
        steps = zip(shape, type.strides, given_type.strides or type.strides, strict=True)
        if any(size > 1 and wanted != given for size, wanted, given in steps) and 0 not in shape:
            raise _wrong(name, type, argument)


def _wrong(name: str, type: Type, argument: Any) -> ArgumentError:
    return ArgumentError(
        f"the argument for %{name} is {argument_type(argument)}, and the program was loaded for {type}",
        hint="load it again with example arguments like these",
    )
