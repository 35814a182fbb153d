"""Fusion groups as compiled kernels, specialised for the types of the arguments and looked up by them afterwards.

A group's plan is built when all types of its inputs are known, or else at the first call. A call compares the element
types, shapes and strides of its arguments, so a kernel never runs on a layout that it was not compiled for. Where no
kernel can be built, the group's block runs through the library, and a remark says why.

A traced function and a typed-in program know shapes but not strides. Most arrays are row-major, and the op rules infer the
rest from that: kernels for these types can be compiled and inspected before the program runs. Nothing relies on the
assumption: a call with other strides compiles kernels for those.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any, Final

import numpy as np

from irscope._base.nested import grouped
from irscope._base.running import progress, run_together
from irscope.analysis.layers import Layer
from irscope.analysis.per_graph import once
from irscope.analysis.shapes import infer
from irscope.codegen.kernel import LaunchPlan, may_overwrite, overwriting
from irscope.codegen.lowering import spec_of_group
from irscope.errors import IrscopeError
from irscope.ir import BOOL, FLOAT, INT, Block, Graph, Node, TensorType, Type, Value, new_id
from irscope.ops.type_rules import contiguous_strides
from irscope.runtime.arrays import Allocate, Function, Library, Memory, compiled_text, extents
from irscope.runtime.cpu import CpuDevice, prepared_layer
from irscope.runtime.device import NO_MEMORY, Device, PreparedPlan
from irscope.runtime.foreign_ops import array_of
from irscope.runtime.program.arena import Arena
from irscope.runtime.program.code import flatten
from irscope.runtime.program.compiled_kernel import CompiledKernel
from irscope.runtime.timer import measure
from irscope.transforms.base import Remark

_MOST: Final = 1024
"""Layouts of arguments that a group remembers; when there are more, all are dropped and looked up again."""


class Kernels:
    """All kernels of an executable, and the plans of its groups.

    Where `device_of` returns a separate device for each group, equal kernels are compiled once per group.
    """

    def __init__(self, graph: Graph, device_of: Callable[[Node], Device], *, exact: bool = False) -> None:
        """`exact`: a group gets kernels only if they give torch's bits."""
        self.graph = graph
        self.device_of = device_of
        self.exact = exact
        self.taken: dict[Node, dict[int, int]] = {}
        """For each group, the outputs to be written in place of inputs, by position."""
        self.compiled: dict[int, CompiledKernel] = {}
        """In the order in which they were compiled, by the identity of the device's own object."""
        self.remarks: list[Remark] = []
        self.threads: dict[Node, int] = {}
        """The number of threads that the last prepared plan of each group runs on."""
        self._lock = threading.RLock()

    def prepare(self, group: Node, types: Sequence[Type]) -> PreparedPlan | None:
        """Returns the plan of a group for these types; None, with a remark, where no kernel can be built."""
        device = self.device_of(group)
        try:
            prepared = device.prepare(self._placed(spec_of_group(group, types, exact=self.exact), group, types))
        except IrscopeError as error:
            self._remark(group, error)
            return None
        self._record(prepared, device, group)
        return prepared

    def prepare_all(self, types: Mapping[Node, Sequence[Type]]) -> dict[Node, PreparedPlan | None]:
        """Returns the plans of several groups for their types; distinct kernels are compiled in parallel, equal ones once."""
        plans: dict[Node, tuple[Device, LaunchPlan]] = {}
        for group, operands in types.items():
            try:
                question = (spec_of_group, group, tuple(operands), self.exact)  # a comparison compiles a program five times
                plan = once(self.graph, question, partial(spec_of_group, group, operands, exact=self.exact))
                plans[group] = self.device_of(group), self._placed(plan, group, operands)
            except IrscopeError as error:
                self._remark(group, error)
        distinct = {(id(device), plan.specs): (device, plan) for device, plan in plans.values()}
        for device in {id(device): device for device, _ in plans.values()}.values():
            device.prepare_together([plan for other, plan in distinct.values() if other is device])
        if len(distinct) > 1:
            with progress(len(distinct), "compiling kernels") as step:
                for _ in run_together([partial(_prepared, device, plan) for device, plan in distinct.values()]):
                    step()
        made: dict[Node, PreparedPlan | None] = dict.fromkeys(types)
        for group, (device, plan) in plans.items():
            try:
                prepared = made[group] = device.prepare(plan)
            except IrscopeError as error:
                self._remark(group, error)
            else:
                self._record(prepared, device, group)
        return made

    def _placed(self, plan: LaunchPlan, group: Node, types: Sequence[Type]) -> LaunchPlan:
        """Returns the plan with its in-place outputs written over the inputs they replace."""
        taken = self.taken.get(group)
        return plan if not taken else overwriting(plan, _of_one_type(plan, types, taken))

    def offers(self, group: Node, types: Sequence[Type]) -> dict[int, list[int]]:
        """Returns for each output of a group the inputs that its kernels can overwrite with it."""
        try:
            plan = spec_of_group(group, types, exact=self.exact)
        except IrscopeError:
            return {}
        pairs = product(range(len(plan.outputs)), range(plan.inputs))
        return grouped(pair for pair in pairs if _of_one_type(plan, types, dict([pair])) and may_overwrite(plan, *pair))

    def unsaved(self) -> list[Remark]:
        """Returns a remark for each store that refused kernels, which the next process must then compile again."""
        found = []
        for store, kernel in {kernel.device.store: kernel for kernel in self.compiled.values()}.items():
            if store is not None and store.refused and (trouble := store.trouble()):
                place = f"the cache directory {store.directory}: " if store.directory is not None else ""
                because = f"kernels are not kept for later processes: {place}{trouble}"
                found.append(Remark("analysis", "no-disk-cache", kernel.groups[0], because))
        return found

    def _record(self, prepared: PreparedPlan, device: Device, group: Node) -> None:
        self.threads[group] = prepared.threads
        with self._lock:
            for kernel in prepared.kernels:
                known = self.compiled.get(id(kernel))
                if known is None:
                    known = CompiledKernel(kernel.name, kernel.spec, device, kernel.compile_seconds, kernel.from_disk, kernel=kernel)
                    self.compiled[id(kernel)] = known
                if group not in known.groups:
                    known.groups.append(group)

    def _remark(self, group: Node, error: IrscopeError) -> None:
        found = Remark("missed", error.rule or "no-kernel", group, f"its nodes run one by one: {error.what}")
        with self._lock:
            if not any(remark.subject is group and remark.because == found.because for remark in self.remarks):
                self.remarks.append(found)


class GroupKernels:
    """One group, and its plans by the types of the arguments."""

    def __init__(self, group: Node, kernels: Kernels) -> None:
        self.group = group
        self.inputs = group.inputs
        self.kernels = kernels
        self.expected = tuple([value.type for value in group.inputs])
        """The types of the arguments: those that the graph declares, or else the most likely ones."""
        self._plans: dict[tuple[Type, ...], PreparedPlan | None] = {}
        self._lock = threading.RLock()
        self.arena: Arena | None = None
        """The memory of the results, if the program's memory is planned."""

    def plan(self, types: tuple[Type, ...]) -> PreparedPlan | None:
        """Returns the plan for arguments of these types, which is built once."""
        if types in self._plans:
            return self._plans[types]
        with self._lock:
            if types not in self._plans:  # else another thread has built it
                plan = self.kernels.prepare(self.group, types)
                if len(self._plans) >= _MOST:
                    self._plans = {}
                self._plans[types] = plan
            return self._plans[types]

    def known_types(self) -> tuple[Type, ...] | None:
        """Returns the expected types of the arguments if they say all that a kernel depends on, else None."""
        types = tuple(map(_plain, self.expected))
        full = (type.is_static and type.strides is not None for type in types if isinstance(type, TensorType))
        numbers = (type in (INT, FLOAT, BOOL) for type in types if not isinstance(type, TensorType))
        return types if all(full) and all(numbers) else None

    def keep(self, types: tuple[Type, ...], plan: PreparedPlan | None) -> None:
        self._plans.setdefault(types, plan)

    def ready(self, operands: Sequence[Any], memory: Memory) -> BoundPlan | None:
        """Returns a plan with its allocators for operands like these; None if no kernel takes them."""
        types = memory.types(operands)
        plan = None if types is None else self.plan(types)
        if plan is None:
            return None
        makers = [
            memory.maker(type) if self.arena is None else self.arena.maker(self.group, place, type, memory)
            for place, type in enumerate(plan.plan.outputs)
        ]
        return BoundPlan(plan.on(memory.library), makers, dict(plan.plan.in_place))


@dataclass(frozen=True, slots=True, eq=False)
class BoundPlan:
    """A plan, and the allocators of its results."""

    plan: PreparedPlan
    makers: Sequence[Allocate]
    in_place: Mapping[int, int]
    """Results that overwrite an operand, by position; their allocators are not called."""

    def make_text(self, operands: Sequence[str], names: dict[str, Any]) -> list[str]:
        """Returns the statements that create the results `y0`, …; adds what they need to `names`."""
        lines = []
        for place, make in enumerate(self.makers):
            if place in self.in_place:
                lines.append(f"y{place} = {operands[self.in_place[place]]}")
                continue
            names[f"make{place}"] = make
            lines.append(f"y{place} = make{place}()")
        return lines

    def launch_text(
        self, operands: Sequence[str], numbers: Collection[str], memory: Memory, names: dict[str, Any],
        offsets: Mapping[int, int] | None = None,
    ) -> list[str]:  # fmt: skip
        """Returns the statements that run the plan on variables, of which some are `numbers`: a call of its only kernel, or of the
        plan itself. Adds what they need to `names`; the plan is among it, and keeps what the kernel reads alive. `offsets`: for some
        operands, the bytes from the variable's first element to theirs."""
        offsets = offsets or {}
        names |= {"plan": self.plan, "address": memory.address, "no_memory": NO_MEMORY}
        outputs = [memory.address_text.format(f"y{place}") for place in range(len(self.makers))]
        inputs = [text if text in numbers else memory.address_text.format(text) for text in operands]
        single = self.plan.single
        if single is None:
            given = "".join([f"{text} + {offsets[place]}, " if offsets.get(place) else f"{text}, " for place, text in enumerate(inputs)])
            return [f"plan(({''.join(f'{text}, ' for text in outputs)}), ({given}))"]
        launch = single.launch
        names |= {"kernel": single.function, "pack": single.pack, "dims": single.dims_address}
        words = [*[outputs[i] for i in launch.writes], *[inputs[i] if i >= 0 else "0" for i in launch.reads]]
        taken = {word: f"p{place}" for place, word in enumerate(words) if place in single.addresses}
        found = " and ".join([f"({name} := {word})" for word, name in taken.items()])
        check = [f"if not ({found}): raise ValueError(no_memory)"] if taken else []
        further = [*[0 for _ in launch.writes], *[offsets.get(i, 0) for i in launch.reads]]
        moved = [
            f"{taken.get(word, word)} + {offset + more}" if offset + more else taken.get(word, word)
            for word, offset, more in zip(words, single.moved, further, strict=True)
        ]
        return [*check, f"kernel(pack({', '.join(moved)}), dims)"]


class GroupCall:
    """One group in a program: `call` runs it on its operands, and returns its result, or a tuple of several.

    For each layout of the operands there is one generated function, which compares them with that layout, allocates the
    results and calls the kernel; `call` is the one that was used last. Where operands differ from it, the key of their
    layout finds the function, or makes it. Where `views` has what makes a view, it is called with the tensor that the view is of,
    and the kernel reads that one at an offset."""

    __slots__ = ("call", "fallback", "group", "known", "library", "memory", "views")

    def __init__(
        self, group: GroupKernels | LayerKernel, memory: Memory, library: Library | None,
        views: Mapping[int, Callable[[Any], Any]] | None = None,
    ) -> None:  # fmt: skip
        """`library`: what runs the group's nodes where there is no kernel, without a `fallback`. `views`: by the operand's position."""
        self.group = group
        self.memory = memory
        self.library = library
        self.views = views or {}
        self.call: Callable[..., Any] = self.look_up
        self.known: dict[Hashable, Callable[..., Any] | None] = {}
        self.fallback: Callable[[Sequence[Any]], Any] | None = None

    def viewing(self, views: Mapping[int, Callable[[Any], Any]]) -> GroupCall:
        """Returns the call of the same group on the tensors that its operands are views of."""
        made = GroupCall(self.group, self.memory, self.library, views)
        made.fallback = self.fallback
        return made

    def look_up(self, *operands: Any) -> Any:
        """Runs the function for the layout of these operands, or where no kernel takes them, the nodes through the library."""
        key, known = self.memory.key(operands), self.known  # which another thread may replace
        if key not in known:
            if len(known) >= _MOST:
                known.clear()
            known[key] = self._made(key, operands)
        found = known[key]
        if found is None:
            if self.fallback is None:
                assert self.library is not None, "a layer has a fallback"
                self.fallback = _by_library(self.group.group, self.library)
            return self.fallback(self._seen(operands))
        self.call = found
        if self.known is not known:  # a weight was written meanwhile
            self.call = self.look_up
        return found(*operands)

    def _seen(self, operands: Sequence[Any]) -> Sequence[Any]:
        """Returns the operands, with views made."""
        return [self.views[place](x) if place in self.views else x for place, x in enumerate(operands)] if self.views else operands

    def _made(self, key: Hashable, operands: Sequence[Any]) -> Callable[..., Any] | None:
        seen, offsets = self._seen(operands), dict[int, int]()
        for place in self.views:
            offset = self.memory.offset(operands[place], seen[place])
            if offset is None:  # a copy, or elements of another type
                on_views = self.viewing({})
                return lambda *operands: on_views.call(*self._seen(operands))
            offsets[place] = offset
        ready = self.group.ready(seen, self.memory)
        return None if ready is None else self._written(key, ready, operands, offsets)

    def _written(self, key: Hashable, ready: BoundPlan, operands: Sequence[Any], offsets: Mapping[int, int]) -> Callable[..., Any]:
        memory, names = self.memory, dict[str, Any](miss=self.look_up)
        fits = fits_text(key, self.group.inputs, operands, memory, names)
        xs, ys = [f"x{place}" for place in range(len(operands))], [f"y{place}" for place in range(len(ready.makers))]
        given, numbers = ", ".join(xs), {x for x in xs if f"type_{x}" in names}
        body = [*ready.make_text(xs, names), *ready.launch_text(xs, numbers, memory, names, offsets)]
        text = "\n".join([
            f"def call({given}):",
            f"    if not ({fits}): return miss({given})",
            *[f"    {line}" for line in body],
            f"    return {', '.join(ys)}",
        ])  # fmt: skip
        exec(compiled_text(text), names)  # only counts and a memory's own facts
        made: Callable[..., Any] = names["call"]
        return made


def fits_text(key: Hashable, values: Sequence[Value], operands: Sequence[Any], memory: Memory, names: dict[str, Any]) -> str:
    """Returns a condition that holds if the variables `x0`, … are laid out like these operands, whose key this is. `names` gets what it
    needs, of each operand that is a number its type as `type_x0`. Raises ValueError for operands without a key."""
    if not isinstance(key, tuple):
        raise ValueError("no kernel takes them")
    xs = [f"x{place}" for place in range(len(operands))]
    numbers = {x: kind for x, kind in zip(xs, key, strict=True) if not isinstance(kind, tuple)}
    names |= {"key_of": memory.key, "key": key, **{f"type_{x}": kind for x, kind in numbers.items()}}
    fits = f"key_of(({''.join(f'{x}, ' for x in xs)})) == key"
    owned = {x: operand for x, operand in zip(xs, operands, strict=True) if x not in numbers}
    # an operand declared as a number may be a tensor in this call and a number, without `is_nested`, in the next
    fixed = all(isinstance(value.type, TensorType) for value, x in zip(values, xs, strict=True) if x in owned)
    is_owned = bool(owned) and fixed and all(map(memory.owns, owned.values()))
    if is_owned and (quick := memory.quick_test(list(owned), list(owned.values()), names, inside=True)):
        others = "".join([f" and {x}.__class__ is type_{x}" for x in numbers])
        return f"{quick}{others} or {fits}"
    return fits


class LayerKernel:
    """A layer with a kernel (`irscope.runtime.cpu.layers`): `function` runs it on the operands of its node, of which all but the input
    and what is added are the same in each run."""

    def __init__(self, layer: Layer, device: CpuDevice, memory: Memory, constant: Callable[[Value], Any], function: Function) -> None:
        """`function` runs the node on operands that the kernel does not take."""
        self.group = layer.node
        self.layer = layer
        self.device = device
        self.held: list[Any] = [None if value is None else constant(value) for value in (layer.weight, layer.bias)]
        self.call = GroupCall(self, memory, None)
        self.calls = [self.call]
        self.inputs = [layer.x] if layer.other is None else [layer.x, layer.other]
        places = [layer.node.inputs.index(value) for value in self.inputs]
        fixed = [None if value in self.inputs else constant(value) for value in layer.node.inputs]

        def on_others(operands: Sequence[Any]) -> Any:
            given = dict(enumerate(fixed)) | dict(zip(places, operands, strict=True))
            return function(*given.values())

        self.call.fallback = on_others
        given = ", ".join([f"x{place}" for place in range(len(fixed))])
        names: dict[str, Any] = {"group": self.call}
        exec(compiled_text(f"def run({given}):\n    return group.call({', '.join([f'x{place}' for place in places])})"), names)
        self.function: Function = names["run"]

    def ready(self, operands: Sequence[Any], memory: Memory) -> BoundPlan | None:
        """Returns the kernel with its allocator; None if it does not take such operands."""
        types = memory.types(operands)
        tensors = [None if held is None else np.asarray(array_of(held)) for held in self.held]
        declared = [None if value is None else value.type for value in (self.layer.weight, self.layer.bias)]
        for tensor, type in zip(tensors, declared, strict=True):
            if isinstance(type, TensorType) and (tensor is None or (tensor.shape, str(tensor.dtype)) != (type.shape, type.dtype)):
                return None  # the owner made another of it
        plan = None if types is None else prepared_layer(self.device, self.layer, types, tensors)
        return None if plan is None else BoundPlan(plan, (memory.maker(self.layer.made),), {})

    def again(self, written: Any) -> None:
        """Lays the weights out again, as they are at the next call."""
        for call in self.calls:
            call.known, call.call = {}, call.look_up

    def viewing(self, views: Mapping[int, Callable[[Any], Any]]) -> GroupCall:
        """Returns the call on the tensors that its operands are views of."""
        self.calls.append(self.call.viewing(views))
        return self.calls[-1]


def _prepared(device: Device, plan: LaunchPlan) -> None:
    """Compiles a plan's kernels; suppresses our own errors, which the later request for the plan raises again."""
    with suppress(IrscopeError):
        device.prepare(plan)


def _by_library(group: Node, library: Library) -> Callable[[Sequence[Any]], Any]:
    """Returns a function that runs the group's nodes one by one."""
    code = flatten(group.blocks[0], library)

    def run(operands: Sequence[Any]) -> Any:
        slots = code.template.copy()
        for slot, operand in zip(code.inputs, operands, strict=True):
            slots[slot] = operand
        code.run(slots)
        results = tuple([slots[slot] for slot in code.outputs])
        return results[0] if len(results) == 1 else results

    return run


def _of_one_type(plan: LaunchPlan, types: Sequence[Type], taken: Mapping[int, int]) -> dict[int, int]:
    """Returns the pairs of outputs and inputs that are tensors of the same type, so that one can overwrite the other."""
    return {output: operand for output, operand in taken.items() if plan.outputs[output] == _plain(types[operand])}


def _plain(type: Type) -> Type:
    """Returns a type without the parts that kernels ignore."""
    return TensorType(type.dtype, type.shape, type.strides) if isinstance(type, TensorType) else type


def likely_types(graph: Graph, groups: Iterable[Node]) -> dict[Node, tuple[Type, ...]]:
    """Returns the types of each group's operands if inputs of unknown strides are row-major; the types as they are if none is."""
    assumed: dict[Value, Type] = {}
    for value in graph.free_inputs:
        type = value.type
        if isinstance(type, TensorType) and type.is_static and type.strides is None:
            assumed[value] = replace(type, strides=contiguous_strides(extents(type)))
    if not assumed:
        return {group: tuple([value.type for value in group.inputs]) for group in groups}
    shapes = infer(graph, assumed)
    return {group: tuple([shapes.type(value) for value in group.inputs]) for group in groups}


Compile = Callable[[Graph], Callable[..., Any]]
_TURNS = 60


def merge_slowdown(before: Graph, after: Graph, groups: Sequence[Node], compiled: Compile) -> float | None:
    """Returns how much longer the groups of a class run after merging, as a fraction of their time.

    None where it cannot be measured, because types are unknown or there is no kernel. `after` is the graph in which the
    class's body computes the results of the groups.
    """
    chosen = {id(groups[at]): groups[at] for at in (0, len(groups) // 2, -1)}
    own = together = 0.0
    for group in chosen.values():
        arguments = [operand_like(value.type, seed) for seed, value in enumerate(group.inputs)]
        if any(argument is None for argument in arguments):
            return None
        try:
            programs = [compiled(group_alone(graph, group)) for graph in (before, after)]
            runs = {name: partial(run, *arguments) for name, run in zip(("own", "class"), programs, strict=True)}
            taken = measure(runs, turns=_TURNS, patience=2.0)
        except IrscopeError:
            return None
        own += taken["own"].best
        together += taken["class"].best
    return together / own - 1


def group_alone(graph: Graph, group: Node) -> Graph:
    """Returns the node that computes a group's results, with the numbers passed to it, as a graph over the group's operands."""
    node = graph.producer[group.outputs[0]]
    outside = set(group.inputs)
    made = [graph.producer[value] for value in dict.fromkeys(node.inputs) if value not in outside]
    return Graph(Block(new_id(), group.inputs, (*made, node), node.outputs), graph.name)


def operand_like(type: Any, seed: int, dtype: str = "") -> np.ndarray[Any, Any] | float | None:
    """Returns a random value of a type, with its strides, or of another element type; None where the type is incomplete."""
    random = np.random.default_rng(seed)
    if not isinstance(type, TensorType) or not type.is_static or type.dtype is None:
        return {"float": 0.5, "int": 3}.get(str(type))
    try:
        wanted = np.dtype(dtype or type.dtype)
    except TypeError:  # a type that NumPy lacks
        return None
    shape = extents(type)
    values = (random.uniform(0.1, 1.0, shape) if wanted.kind in "fc" else random.integers(0, 2, shape)).astype(wanted)
    if type.strides is None or not values.size:
        return values
    last = sum((size - 1) * step for size, step in zip(shape, type.strides, strict=True))
    steps = [step * wanted.itemsize for step in type.strides]
    made = np.lib.stride_tricks.as_strided(np.zeros(last + 1, wanted), shape, steps)
    made[...] = values
    return made
