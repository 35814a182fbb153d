"""A program for one library: its code, the conversion of arguments to that library, and gradients that torch would record.

A compiled program computes no gradients, and raises an error where one is needed. Where torch records gradients and an argument
or a parameter requires one, the model's results require one too. The program's results must as well, since they would silently
count as constants otherwise; differentiating through them raises an error with the way out. The program also refuses the writes
that torch would refuse or record for the model: to a leaf that requires a gradient, and to an argument that would depend on one
afterwards.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from math import prod
from typing import Any, Final, NamedTuple

import numpy as np

from irscope._base.nested import is_fixed, leaves, map_leaves
from irscope._base.words import plural
from irscope.analysis.alias import AliasDb
from irscope.analysis.layers import Layer, layer_of
from irscope.analysis.per_graph import alias_db_of
from irscope.codegen.kernel import ITEM_SIZE
from irscope.errors import ArgumentError, RunError
from irscope.ir import NOT_CONSTANT, Graph, Node, TensorType, Value, constant_of
from irscope.ops.registry import category_of, effect_of
from irscope.ops.traits import ANOTHER_OBJECT, OF_THE_TENSOR, SHAPE_WRITERS, STORAGE_WRITERS
from irscope.ops.type_rules import DTYPE_CODES, is_contiguous
from irscope.runtime.arrays import (
    LENT_TYPES,
    BufferPool,
    CupyLibrary,
    CupyMemory,
    Function,
    LentArrays,
    Library,
    Memory,
    NumpyLibrary,
    NumpyMemory,
    Surroundings,
    TorchLibrary,
    TorchMemory,
    as_torch_on_gpu,
    borrow,
    can_share,
    extents,
    imported_cupy,
    in_native_order,
    is_foreign,
    is_torch_tensor,
    lent_by_torch,
    on_whole_elements,
    prepared,
    return_arrays,
    rounded,
    widened,
)
from irscope.runtime.cpu import CpuDevice, kernel_of, library_seconds
from irscope.runtime.foreign_ops import SMALL_FLOATS, array_of, plainly_typed, tensor_of
from irscope.runtime.program.arena import Arena, PeakMemory
from irscope.runtime.program.code import Code, Slots, flatten
from irscope.runtime.program.groups import GroupCall, GroupKernels, LayerKernel
from irscope.runtime.program.guard import Call, OnlyGroup, kernel_call, may_write, program_call
from irscope.runtime.program.loops import LoopCall, LoopForm
from irscope.runtime.program.views import with_fewer_views
from irscope.transforms.cleanup import Followed, Hasher, Made

_NEGATING: Final = ("aten::imag", "aten::_neg_view")
"""Ops whose results torch may store with the sign flipped."""
_GAINING: Final = ("convolution", "matmul", "normalization")
"""Categories of ops, besides pooling, that torch computes in less time than NumPy's references."""
_HASHED: Final = 50e9
"""Bytes a second that the contents of weights are looked at."""

Computes = Callable[[Slots], tuple[Any, ...]]
"""Returns a program's results for slots that hold the arguments."""


class BoundProgram:
    """The flat code of a graph for one library."""

    def __init__(
        self, graph: Graph, groups: Mapping[Node, GroupKernels], library: str, device: str, pool: BufferPool | None,
        surroundings: Surroundings, arena: Arena | None = None, *, quick: bool = False,
        loops: Mapping[Node, LoopForm] | None = None, layers: Mapping[Node, "LayerChoice"] | None = None, hasher: Hasher | None = None,
        replays_of: "Callable[[BoundProgram], Computes | None] | None" = None,
    ) -> None:  # fmt: skip
        """`quick`: ops outside kernels may be others of torch that differ in rounding alone. `loops`: those that machine code may run.
        `layers`: those that kernels compute. `hasher`: of the contents of tensors (`CpuDevice.hasher`), without which nothing is made of
        them once. `replays_of`: what computes the calls of one signature on a GPU in place of `computed`, if it does."""
        self.graph = graph
        self.types = tuple(value.type for value in graph.outputs)
        self.arena = arena
        self.writes = may_write(graph)
        self.library: Library
        self.memory: Memory
        self.is_lent = library == "lent"
        """Whether torch computes on the memory of arrays, and returns arrays."""
        self.is_torch = library == "torch" or self.is_lent
        self.move_to = "cuda" if device == "cuda" else ""
        if self.is_torch:
            quick = quick and not self.move_to
            self.library = TorchLibrary(device=self.move_to, lent=self.is_lent, quick=quick and arena is None)
            ops = {node.op for node in graph.nodes()}
            own = pool if ops.isdisjoint(STORAGE_WRITERS) else None  # storage that is exchanged must be torch's own
            negated = not ops.isdisjoint(_NEGATING)
            self.memory = TorchMemory(self.move_to or "cpu", may_be_negated=negated, pool=own, surroundings=surroundings)
            self.wrap = self.library.torch.from_numpy
            self.gradients = None if self.is_lent else Gradients(graph, self.library.torch)
        elif self.move_to:
            cupy = imported_cupy()
            self.library, self.memory = CupyLibrary(cupy, lend=lent_by_torch), CupyMemory(cupy)
        else:
            _refuse_old_shapes(graph)
            self.library = NumpyLibrary(lend=lent_by_torch)
            self.memory = NumpyMemory(pool or BufferPool(limit_bytes=0))
        self.arrays = LentArrays(surroundings)
        """What tells the caller's arguments apart, if they are arrays whose memory torch computes on."""
        bound = {value: held if isinstance(held, list | dict) else self._moved(held) for value, held in graph.bound.items()}
        self.bound = tuple((bound[value], held) for value, held in graph.bound.items())
        instead = arena.instead if arena is not None and self.is_torch else None

        def call(node: Node) -> GroupCall | LoopCall | None:
            if loops and node in loops:
                return LoopCall(loops[node], groups, self.memory, self.library)
            if node not in groups:
                return None
            kernels[node] = made = GroupCall(groups[node], self.memory, self.library)
            return made

        def prepare(node: Node, function: Function, constant: Callable[[Value], Any]) -> Function:
            def held(value: Value) -> Any:  # what is the same in each run, unless its owner writes it
                payload = graph.bound.get(value)
                return bound[value] if is_torch_tensor(payload) or is_fixed(payload) else constant(value)

            if layers and node in layers:
                layer = LayerKernel(layers[node].layer, layers[node].device, self.memory, held, function)
                if not follow(layer.held, layer.again):
                    return function
                kernels[node] = layer
                return layer.function
            if not isinstance(self.library, TorchLibrary) or not quick:
                return function
            if node.op == "aten::zeros" and (type := _plain_zeros(graph, node)) is not None:
                make = self.memory.maker(type)
                return lambda *given: make().zero_()  # a sixth of the time that torch takes to parse the operands
            return prepared(node, function, held, self.library.torch, follow, is_lean=arena is not None)

        kernels: dict[Node, GroupCall | LayerKernel] = {}
        followed: list[Made] = []
        lasting = {id(tensor) for tensor, array in self.bound if is_fixed(array)}

        def follow(held: Sequence[Any], again: Callable[[Any], object]) -> bool:
            tensors = [tensor for tensor in held if is_torch_tensor(tensor) and id(tensor) not in lasting]
            followed.extend([Made(tensors, again)] if tensors else [])
            return hasher is not None

        self.code: Code = flatten(graph.body, self.library, bound=bound, call=call, instead=instead, prepare=prepare)
        if isinstance(self.memory, TorchMemory) and kernels and quick and arena is None and not (self.writes or self.memory.may_be_negated):
            self.code.unwatched = with_fewer_views(self.code, graph, kernels, self.memory)
        self.slots = tuple(slot for slot, value in zip(self.code.inputs, graph.inputs, strict=True) if value not in graph.bound)
        before = graph.modes if isinstance(graph.modes, Followed) else None
        self.follow = Followed(followed, hasher=hasher, before=before) if followed and hasher is not None else None
        """Has made again, before a run, what was made once of tensors that were written since."""
        self._replays_of = replays_of

    def run(self, args: Sequence[Any], visit: Callable[[Node], None] | None, footprints: list[PeakMemory] | None = None) -> tuple[Any, ...]:
        """Returns the program's results; a `PeakMemory` that follows the run is appended to `footprints`."""
        slots = self.code.template.copy()
        for slot, argument in zip(self.slots, args, strict=True):
            slots[slot] = self._moved(argument)
        held = self._held(slots, args) if self.is_lent else {}  # the run may alter the lists in the slots
        results = self.run_slots(slots, visit, footprints)
        if isinstance(self.memory, CupyMemory):
            return self.memory.given_back(args, results)
        if self.is_lent:
            return self._returned(results, held, args)
        if self.is_torch:
            return results
        return return_arrays(rounded(results, self.types), args, self.graph.bound.values())

    def given(self, args: Sequence[Any]) -> Memory:
        """Returns what tells these arguments from others."""
        are_arrays = self.is_torch and not self.move_to and any(isinstance(arg, np.ndarray) for arg in args)
        return self.arrays if self.is_lent or (are_arrays and not any(map(is_torch_tensor, args))) else self.memory

    def call(self, args: Sequence[Any], check: Callable[[Sequence[Any]], object] | None, only: OnlyGroup | None) -> Call | None:
        """Returns the function for arguments like these, which have passed the checks; None if some must be moved. `only`: the
        group that is the whole program."""
        if not self.is_torch and any(isinstance(type, TensorType) and type.dtype in SMALL_FLOATS for type in self.types):
            return None  # rounded in the end
        if only is not None and (direct := kernel_call(args, only, self.memory)) is not None:
            return direct
        gives_one, memory = len(self.code.outputs) == 1, self.given(args)
        if self.move_to and not (self.is_torch and all(is_torch_tensor(arg) and arg.is_cuda for arg in args)):
            return None  # to be moved
        if memory is not self.arrays:
            replays = None if self._replays_of is None else self._replays_of(self)
            compute = self.run_slots if replays is None else partial(self._run_slots, compute=replays)
            return program_call(args, memory, compute, self.code.template, self.slots, check, gives_one=gives_one)
        if not all(can_share(arg, writes=self.writes) for arg in args if isinstance(arg, np.ndarray)):
            return None

        def run(slots: Slots, given: Sequence[Any]) -> tuple[Any, ...]:
            if not self.is_lent:  # the program has tensors of its own, and returns tensors
                return self.run_slots(slots)
            held = bound.copy()  # as `_held`, of a call that passes no lists
            for slot, place in arrays:
                held[id(slots[slot])] = given[place]
            results = self.run_slots(slots)
            try:
                return tuple([held[id(result)] if id(result) in held else result.numpy() for result in results])
            except (AttributeError, RuntimeError, TypeError):  # a number or a list, conjugated elements, a type of `ml_dtypes`
                return self._returned(results, held, given)

        enter = [self._entrance(argument) for argument in args]
        arrays = [(slot, place) for place, slot in enumerate(self.slots) if isinstance(args[place], np.ndarray)]
        bound = {id(tensor): array for tensor, array in self.bound}
        return program_call(args, memory, run, self.code.template, self.slots, check, gives_one=gives_one, enter=enter)

    def _entrance(self, argument: Any) -> Callable[[Any], Any] | None:
        """Returns what makes a tensor of an argument like this one; None for one that is passed as it is."""
        if not isinstance(argument, np.ndarray):
            return None
        if argument.dtype.isbuiltin != 1 or argument.dtype.char in "qQ" or not on_whole_elements(argument):
            return self._moved
        return self.wrap if argument.flags.writeable else lambda array: self.wrap(np.asarray(_Unlocked(array)))

    def _held(self, slots: Slots, args: Sequence[Any]) -> dict[int, Any]:
        """Returns the caller's array behind each tensor that shares its memory, by the tensor's identity."""
        held = {id(tensor): array for tensor, array in self.bound}
        for slot, argument in zip(self.slots, args, strict=True):
            if isinstance(argument, np.ndarray):
                held[id(slots[slot])] = argument
            elif isinstance(argument, list | tuple | dict):
                held |= dict(zip(map(id, leaves(slots[slot])), leaves(argument), strict=True))
        return held

    def _returned(self, results: Sequence[Any], held: Mapping[int, Any], args: Sequence[Any]) -> tuple[Any, ...]:
        """Returns torch's results as arrays of the caller's kind; what was given comes back as the same object."""
        arrays = [held[id(result)] if id(result) in held else array_of(result) for result in results]
        return return_arrays(rounded(arrays, self.types), args, self.graph.bound.values())

    def run_slots(
        self, slots: Slots, visit: Callable[[Node], None] | None = None, footprints: list[PeakMemory] | None = None
    ) -> tuple[Any, ...]:
        """Returns the results of a run on slots that hold the arguments."""
        if self.follow is not None:
            self.follow()
        if self.arena is None:
            return self._run_slots(slots, visit, footprints)
        before = self.arena.enter()
        try:
            return self._run_slots(slots, visit, footprints)
        finally:
            self.arena.leave(before)

    def computed(self, slots: Slots, visit: Callable[[Node], None] | None = None, after: Any = None) -> tuple[Any, ...]:
        """Returns the results of the code, without torch's gradients."""
        self.code.run(slots, visit, after)
        return tuple([slots[slot] for slot in self.code.outputs])

    def _run_slots(
        self, slots: Slots, visit: Callable[[Node], None] | None = None, footprints: list[PeakMemory] | None = None,
        compute: Computes | None = None,
    ) -> tuple[Any, ...]:  # fmt: skip
        """Returns the results of `compute`, by default `computed`, and closes those for which torch would record a gradient."""
        if compute is None:
            after = None
            if footprints is not None:
                footprints.append(PeakMemory(self.code, slots))
                after = footprints[-1].after
            compute = self.computed if visit is None and after is None else partial(self.computed, visit=visit, after=after)
        given: list[Any] = []
        wanting: list[Any] = []
        if isinstance(self.library, TorchLibrary):
            torch = self.library.torch
            if torch.is_grad_enabled() and self.gradients is not None:
                given = [slots[slot] for slot in self.slots]
                wanting = self.gradients.wanted(given)
            before = torch.is_grad_enabled()
            try:
                torch._C._set_grad_enabled(False)  # as `torch.no_grad` does, but faster
                results = compute(slots)
            finally:
                if torch._C._is_torch_function_mode_enabled():  # the mode's own code would run, and might raise
                    with torch._C.DisableTorchFunction():
                        torch._C._set_grad_enabled(before)
                else:
                    torch._C._set_grad_enabled(before)
        else:
            results = compute(slots)
        return self.gradients.closed(results, wanting, given) if wanting and self.gradients is not None else results

    def _moved(self, value: Any) -> Any:
        """Returns the value as the library has it: arrays become tensors that share their memory, containers are copied.

        A program therefore writes its arguments' elements but never the caller's lists, as in TorchScript.
        """
        return map_leaves(self._moved_leaf, value)

    def _moved_leaf(self, value: Any) -> Any:
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


def is_lendable(graph: Graph, groups: Collection[Node]) -> bool:
    """Checks whether torch can run a program on arrays of NumPy, and has something to gain outside of kernels.

    Not where an op may change the shape or the storage of an argument, reaches into the storage around it, or asks which object
    that is: these are the tensor's own, not those of the array whose memory it shares. Not with elements of other types. The shape
    of what the program makes is changed by torch alone: an array keeps its own."""
    if any(isinstance(value.type, TensorType) and value.type.dtype not in (None, *LENT_TYPES) for value in graph.values()):
        return False
    writes = may_write(graph)
    if not all(can_share(leaf, writes=writes) for leaf in leaves(list(graph.bound.values())) if hasattr(leaf, "dtype")):
        return False
    inside = {inner for group in groups for block in group.blocks for inner in block.nodes}
    nodes = [node for node in graph.nodes() if node.op != "prim::Constant" and node not in inside]
    writers = [node for node in nodes if node.op in SHAPE_WRITERS]
    if not all(_writes_own_shape(graph, groups, node) for node in writers) or any(node.op in OF_THE_TENSOR for node in nodes):
        return False
    return bool(writers) or any(node not in groups and (category_of(node) in _GAINING or "pool" in node.op) for node in nodes)


def _writes_own_shape(graph: Graph, groups: Collection[Node], node: Node) -> bool:
    """Checks if an op changes the shape of a tensor that the program makes, as an object."""
    made = graph.producer.get(node.inputs[0])
    if made is None or node.op in STORAGE_WRITERS:
        return False
    return made in groups or (made.op.startswith("aten::") and (made.op in ANOTHER_OBJECT or effect_of(made) == "pure"))


def _refuse_old_shapes(graph: Graph) -> None:
    """Raises RunError if a tensor is read under an old name after an op that changes its shape: an array keeps its own."""
    for node in graph.nodes():
        if node.op in SHAPE_WRITERS:
            users = [use.user for use in graph.users.get(node.inputs[0], ()) if use.user is not node]
            if any(not isinstance(user, Node) or graph.position[user] > graph.position[node] for user in users):
                name = graph.names[node.inputs[0]]
                what = f"{node.op} changes the shape of %{name}, which is read again, and an array of NumPy keeps its own"
                raise RunError(what, hint="pass tensors of torch")


class LayerChoice(NamedTuple):
    """A convolution or product that a kernel computes."""

    layer: Layer
    device: CpuDevice
    because: str


def layers_of(graph: Graph, groups: Collection[Node], device: CpuDevice) -> dict[Node, LayerChoice]:
    """Returns the convolutions and products outside of groups that a kernel computes in less time than the library, by estimates."""
    inside = {inner for group in groups for block in group.blocks for inner in block.nodes}
    writes = may_write(graph)

    def constant(value: Value) -> Any:
        if writes and isinstance(value.type, TensorType) and alias_db_of(graph).has_writers(value):
            return None
        payload = graph.bound.get(value)
        if payload is not None:
            return payload if is_torch_tensor(payload) or is_fixed(payload) else None
        found = constant_of(graph, value)
        return None if found is NOT_CONSTANT else found

    chosen: dict[Node, LayerChoice] = {}
    for node in graph.nodes():
        layer = None if node in inside else layer_of(node, constant)
        if layer is None:
            continue
        text, ours = kernel_of(layer, device.host.target)
        if is_torch_tensor(constant(layer.weight)):  # each call looks whether it was written
            ours += 4 * layer.groups * prod(layer.matrix) / _HASHED
        theirs = library_seconds(layer)
        if ours < theirs or node.op == "irscope::convolution":  # torch has no call for that
            tile = f"{plural(text.points, 'point')} × {plural(text.vectors, 'vector')}"
            told = f"a kernel, in tiles of {tile}, takes some {1e6 * ours:.3g} µs by estimate, the library {1e6 * theirs:.3g} µs"
            told += "; the sum is rounded in another order, and the program holds a second copy of the weights"
            chosen[node] = LayerChoice(layer, device, told)
    return chosen


def _plain_zeros(graph: Graph, node: Node) -> TensorType | None:
    """Returns the type of zeros whose operands are all constants; None where it is not known, or they are pinned or not strided."""
    type, given = node.output.type, [constant_of(graph, value) for value in node.inputs]
    if not isinstance(type, TensorType) or not type.is_static or len(given) != 5 or type.dtype not in ITEM_SIZE or type.strides is None:
        return None
    is_plain = given[0] == type.shape and DTYPE_CODES.get(given[1]) == type.dtype and given[2] is None and not given[4]
    return type if is_plain and given[3] in (None, "cpu") and is_contiguous(extents(type), type.strides) else None


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
        return as_torch(array)
    except (TypeError, ValueError) as error:
        raise ArgumentError(
            f"torch cannot share the memory of an argument, an array of {array.dtype} with strides {array.strides}: {error}",
            hint="pass a copy that is an ordinary array: numpy.array(x, dtype=..., order='C')",
        ) from None


def as_torch(value: Any) -> Any:
    """Returns an array as a tensor that shares its memory, also inside lists, tuples and dictionaries."""
    import torch

    def shared(leaf: Any) -> Any:
        if not isinstance(leaf, np.ndarray | np.generic):
            return leaf
        array = np.asarray(leaf)
        if array.dtype.isbuiltin != 1:  # a type of `ml_dtypes`, which the interface does not name
            return tensor_of(array, torch, "")
        return torch.from_numpy(plainly_typed(array if array.flags.writeable else np.asarray(_Unlocked(array))))

    return map_leaves(shared, value)


_NONE_HERE: Final = (
    "a program compiled by irscope computes no gradients, and one is asked for of its result: call it inside of "
    "torch.no_grad() if none is needed, or differentiate the model itself"
)


class Gradients:
    """The handling of gradients in a program that runs while torch records them."""

    def __init__(self, graph: Graph, torch: Any) -> None:
        self.graph = graph
        self.torch = torch
        self.held = [held for held in leaves(list(graph.bound.values())) if isinstance(held, torch.Tensor)]
        self.token: tuple[list[bool], Any] = ([], None)
        """Which of the held tensors require a gradient, and one tensor that depends on all of those."""

    @cached_property
    def written(self) -> frozenset[Value]:
        """The inputs that the program may write; writes through another input that shares their memory do not count."""
        if not may_write(self.graph):
            return frozenset()
        db = AliasDb(replace(self.graph, distinct_inputs=True))
        return frozenset(value for value in self.graph.inputs if db.has_writers(value))

    def wanted(self, given: Sequence[Any]) -> list[Any]:
        """Returns the arguments (one per free input) that require a gradient, and one tensor for all parameters that do.

        Raises RunError if the program may write memory whose write torch would refuse or record.
        """
        binding = self.torch._C
        making = binding._len_torch_dispatch_stack() and binding._get_dispatch_mode(binding._TorchDispatchModeKey.PROXY)
        if making or binding._get_tracing_state() is not None:
            return []  # torch sees the ops, and differentiates them
        wanting = [leaf for leaf in leaves(given) if isinstance(leaf, self.torch.Tensor) and leaf.requires_grad]
        flags = [held.requires_grad for held in self.held]
        if True in flags:
            known, token = self.token
            if known != flags:
                ends = [held for held, flag in zip(self.held, flags, strict=True) if flag]
                token = self._closed([self.torch.empty(0), *ends])[0]
                self.token = flags, token
            wanting.append(token)
        if wanting and self.written:
            self._refuse_writes(given)
        return [] if self.graph.gradients else wanting  # a backward pass returns plain tensors, as torch.autograd.grad does

    def _refuse_writes(self, given: Sequence[Any]) -> None:
        names, bound = self.graph.names, self.graph.bound
        for value, argument in [*zip(self.graph.free_inputs, given, strict=True), *bound.items()]:
            if value not in self.written:
                continue
            for leaf in leaves(argument):
                if not isinstance(leaf, self.torch.Tensor) or not (leaf.is_floating_point() or leaf.is_complex()):
                    continue
                if leaf.requires_grad and leaf.is_leaf:
                    raise _may_not(f"%{names[value]} requires a gradient, and the program may write into it in place")
                if value not in bound:
                    raise _may_not(
                        f"the program may write into %{names[value]}, which would then depend on a tensor that requires a gradient"
                    )

    def _closed(self, tensors: list[Any]) -> Sequence[Any]:
        closed: Sequence[Any] = self.torch._C._functions.DelayedError(_NONE_HERE, len(tensors))(*tensors)
        return closed

    def closed(self, results: tuple[Any, ...], wanting: list[Any], given: Sequence[Any]) -> tuple[Any, ...]:
        """Returns the results; those computed without a gradient become tensors that require one but raise on backward."""
        known = {id(leaf) for leaf in leaves([list(given), self.held])}
        found = {
            id(leaf): leaf for leaf in leaves(results)
            if type(leaf) is self.torch.Tensor and id(leaf) not in known
            and not leaf.requires_grad and (leaf.is_floating_point() or leaf.is_complex())
        }  # fmt: skip
        if not found:
            return results
        made = dict(zip(found, self._closed([*found.values(), *wanting]), strict=False))
        return map_leaves(lambda result: made.get(id(result), result), results)  # type: ignore[no-any-return]


def _may_not(what: str) -> RunError:
    return RunError(
        f"{what}, which torch would refuse or record", rule="gradients", hint="call it inside of torch.no_grad(), or pass x.detach()"
    )
