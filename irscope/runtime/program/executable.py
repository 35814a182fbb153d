"""A runnable program: fusion groups as compiled kernels, everything else through torch or NumPy, in program order.

In-place ops, views, containers and control flow keep the program's semantics; parameters and buffers are the model's own
tensors, so writes to them persist.

A call is answered by the function that was generated for the signature of its arguments (`irscope.runtime.program.guard`): the
one generated last, or if these are unlike its arguments, the one of their own signature. Arguments without a function are
checked and converted, and the program runs from its slots; so does `run`, which also tells observers of each node.

`torch.compile` leaves a call of a compiled program alone: Dynamo would otherwise trace into the runtime, where it compiles
hundreds of small functions and meets code that it cannot trace. Instead the call breaks its graph and runs as outside of it.
"""

from __future__ import annotations

import operator
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Literal
from weakref import ReferenceType

from irscope._base.nested import leaves
from irscope._base.results import Drawn
from irscope._base.words import plural, time_words, warn_caller
from irscope.codegen.kernel import SourceText
from irscope.errors import ArgumentError, DeviceUnavailable, public
from irscope.ir import FLOAT, GROUPS, Graph, Node, Type, Value, check_count, flatten_arguments, graph_of, has_kernel
from irscope.ops.accuracy import Exact, is_exact
from irscope.runtime.arrays import (
    BufferPool,
    Surroundings,
    are_torchs,
    borrow,
    can_share,
    has_onednn,
    has_small_floats,
    imported_cupy,
    in_native_order,
    is_jaxs_own,
    is_product,
    is_small_float,
    on_host,
    return_arrays,
    torch_is_there,
)
from irscope.runtime.cpu import CpuDevice, held_bytes
from irscope.runtime.device import Device, KernelCache, ObjectStore, user_cache_directory
from irscope.runtime.device import device as new_device
from irscope.runtime.foreign_ops import runs_in
from irscope.runtime.program.arena import Arena, PeakMemory, in_place_form, without_workspaces
from irscope.runtime.program.bound_program import BoundProgram, Gradients, LayerChoice, as_torch, is_lendable, layers_of
from irscope.runtime.program.code import Code, Stamp
from irscope.runtime.program.compiled_kernel import KernelList
from irscope.runtime.program.groups import GroupKernels, Kernels, likely_types, merge_slowdown
from irscope.runtime.program.guard import Check, KnownCalls, check_of, may_write, only_group, storage_check
from irscope.runtime.program.loops import LoopForm, loop_form
from irscope.transforms.base import History, Remark, Remarks
from irscope.transforms.cleanup import Followed, Hasher
from irscope.transforms.fusion import FREEZING, Fusion, free_nodes, frozen, is_frozen

if TYPE_CHECKING:
    from irscope.analysis.memory_plan import MemoryPlan
    from irscope.runtime.cuda import CaptureArena, Captured, Replays

Memory = Literal["planned"] | None


def _marked_for_dynamo(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the function, marked as one that Dynamo calls without tracing into it; does not import torch."""
    marked: Any = function
    marked._torchdynamo_disable = True
    marked._torchdynamo_disable_msg = "irscope has compiled what it calls"
    return function


def _leave_alone(function: Callable[..., Any]) -> None:
    """Makes Dynamo skip the function and its callees when it meets the function first; does nothing without torch."""
    torch = sys.modules.get("torch")
    if torch is None:
        return
    with suppress(Exception):  # private API of torch; slower without it
        frames = torch._C._dynamo.eval_frame
        skip = frames._FrameExecStrategy(frames._FrameAction.SKIP, frames._FrameAction.SKIP)
        frames.set_code_exec_strategy(function.__code__, skip)


def compile_graph(
    program: Any, device: str = "cpu", *, share_kernels: bool = True, use_kernels: bool = True,
    pooled: bool = True, store: ObjectStore | None = None, exact: Exact = None, memory: Memory = None,
    threads: int | None = None, freeze: bool = False, layers: bool = True, capture: bool = True,
) -> Executable:  # fmt: skip
    """Compiles a graph, or the graph of a fusion, to run on `"cpu"`, `"cuda"` or `"reference"`.

    Groups whose shapes are known are compiled now, the others when they first run; inputs of unknown strides are assumed
    row-major until a call has others. With `share_kernels=False` every group gets its own kernel; with `use_kernels=False` the
    nodes of groups run one by one through the library; with `pooled=False` the memory of results returns to the system when they
    are freed; with a `store` only its files are used, and kept. Kernels are split over `threads`, by default over as many as torch
    has; with `layers=False` convolutions and products are always the library's. Without a GPU a program for `"cuda"` can be
    inspected but not called; with `capture=False` its calls are never replayed as CUDA graphs.
    `exact="torch"` gives torch's bits (`irscope.ops.accuracy`): groups with other ops run op by op, with a remark; if
    the fusion was built with it, so do the ops that it kept out of groups. With `memory="planned"` kernels place their
    results where `irs.memory_plan` says (`irscope.runtime.program.arena`), and library ops that would allocate workspace are
    rewritten where possible (`irscope.runtime.program.arena`). `freeze` is that of `irs.compile`: a fusion for the processor runs as
    `irscope.transforms.fusion.frozen` makes it, if torch is there, whose library gains by it.

    Raises DeviceUnavailable for an unknown device.
    """
    is_torchs = is_exact(exact)
    if is_torchs and device == "reference":
        raise ArgumentError(
            'the device "reference" computes with NumPy, which rounds differently from torch', hint='use device="cpu" with exact="torch"'
        )
    if memory not in (None, "planned"):
        raise ArgumentError(f"memory is None or 'planned', not {memory!r}")
    if memory == "planned" and device != "cpu":
        raise ArgumentError(f"memory is planned for the device 'cpu', not for {device!r}", hint="leave memory out")
    start = time.perf_counter()
    written = graph_of(program.original if isinstance(program, Fusion) and is_frozen(program) else program, "compile")
    made_once, host = None, shared_device("cpu")
    hasher = host.hasher if isinstance(host, CpuDevice) else None
    if freeze and isinstance(program, Fusion) and device == "cpu" and use_kernels and not is_torchs and hasher is not None:
        made_once = frozen(program)
        program = made_once if made_once.graph is written or has_onednn() else program
    graph = graph_of(program, "compile")
    history: History | None = getattr(program, "history", None)
    told = [remark for record in history.records if record.name in FREEZING for remark in record.remarks] if history is not None else []
    lean: tuple[Remark, ...] = ()
    if memory == "planned" and use_kernels:
        graph, lean = without_workspaces(graph, exact=is_torchs)
        split = [remark.subject.outputs for remark in lean if remark.rule == "split-linears" and isinstance(remark.subject, Node)]
        told = [remark for remark in told if not (isinstance(remark.subject, Node) and remark.subject.outputs in split)]
    devices = devices_for_groups(device, share_kernels, store, threads) if use_kernels else None
    inexact = tuple(remark for remark in getattr(program, "remarks", ()) if remark.rule == "inexact") if is_torchs else ()
    made = Executable(
        graph, device, devices, pooled=pooled, exact=is_torchs, told=(*inexact, *told, *lean), memory=memory, written=written,
        layers=layers, hasher=hasher, capture=capture,
    )  # fmt: skip
    made.history = history
    if isinstance(graph.modes, Followed) and hasher is not None:
        graph.modes.watch(hasher, is_new=program is made_once)
    made.prepare()
    made.compile_seconds = time.perf_counter() - start
    return made


class Executable(Drawn):
    """A compiled program: call it with one argument for each input that is not bound, from any number of threads.

    A nested argument may stand for its parts. Where torch is installed it runs what it is quicker at outside kernels (`library`).

    Returns the program's result, or a tuple of several; tensors are torch's if any argument or parameter is, else JAX's if
    the first array among the arguments is, else NumPy's, with bfloat16 and eight-bit floats as types of `ml_dtypes`.
    Where torch records gradients and an argument or a parameter requires one, so do the results, but differentiating through
    them is an error: a program computes no gradients. Call it inside of `torch.no_grad()` where none are needed.
    """

    def __init__(
        self, graph: Graph, device: str, device_of: Callable[[Node], Device] | None,
        *, pooled: bool = True, exact: bool = False, told: tuple[Remark, ...] = (), memory: Memory = None,
        written: Graph | None = None, layers: bool = True, hasher: Hasher | None = None, capture: bool = True,
    ) -> None:  # fmt: skip
        """`device_of` returns the device that compiles a group's kernels; None runs groups through the library. `written`: the
        program before its constants were worked on once, which runs where torch must see its ops."""
        self.graph = graph
        self.written = written or graph
        self.history: History | None = None
        """The passes that led to `graph`, for a program compiled from a fusion."""
        self.device = device
        self._is_pooled = pooled
        self.compile_seconds = 0.0
        """The time to plan the program and to compile the kernels that were known beforehand."""
        self.exact = exact
        """Whether results have the same bits as torch's."""
        self.told = told
        """Why `exact` kept ops out of groups, how constants were worked on once, and how library ops were rewritten to take less memory."""
        self._kernels = Kernels(graph, device_of or (lambda group: new_device("numpy")), exact=exact)
        fused = [node for node in graph.nodes() if has_kernel(node)] if device_of is not None else []
        self._groups = {node: GroupKernels(node, self._kernels) for node in fused}
        self._free = graph.free_inputs
        self._floats = frozenset(index for index, value in enumerate(self._free) if value.type == FLOAT)
        self._programs: dict[tuple[str, bool], BoundProgram] = {}
        """By library, and by whether torch must see its own ops: those have no kernels."""
        self._is_quick = not exact and device_of is not None
        """Whether the library may compute an op by another one that is quicker."""
        self._hasher = hasher
        self._may_have_layers = layers and self._is_quick and device == "cpu"
        """Whether kernels may compute convolutions and products."""
        self._may_be_replayed = capture and device == "cuda"
        """Whether calls may be replayed as CUDA graphs."""
        self._replays: list[ReferenceType[Replays]] = []  # one for each signature that has a function
        self._is_planned = memory is not None
        self._arena: Arena | None = None
        self._only = only_group(graph, self._groups) if device != "reference" and memory is None else None
        self._storages = storage_check(graph)
        """Checks the addresses of arguments, if they make a difference."""
        self._calls = KnownCalls()
        """What answers calls like earlier ones."""
        self._last_warning = ""
        """The last warning about a model whose modes changed after capture; empty while they are unchanged."""
        self._lock = threading.RLock()
        _leave_alone(type(self).__call__)

    @cached_property
    def _checks(self) -> list[Check | None]:
        return [check_of(value, self.graph.names[value]) for value in self._free]

    @cached_property
    def pool(self) -> BufferPool | None:
        """Allocates large results; without a pool, the library's own allocator does."""
        return BufferPool() if self._is_pooled else None

    @cached_property
    def _surroundings(self) -> Surroundings:
        return Surroundings(self.written, self.device)

    @cached_property
    def _is_torchs(self) -> bool:
        return are_torchs(list(self.graph.bound.values()))

    @cached_property
    def _has_small_floats(self) -> bool:
        return has_small_floats(self.graph)

    def prepare(self) -> None:
        """Compiles the kernels of all groups whose types the graph says, or implies for row-major inputs, on all
        processors."""
        if self.device == "reference":
            return
        unknown = [node for node, group in self._groups.items() if group.known_types() is None]
        for node, expected in likely_types(self.graph, unknown).items():
            self._groups[node].expected = expected
        known = {node: types for node, group in self._groups.items() if (types := group.known_types()) is not None}
        if self._is_planned:  # before kernels are compiled, since one that overwrites an operand is different
            self._plan_memory(known)
        for node, plan in self._kernels.prepare_all(known).items():
            self._groups[node].keep(known[node], plan)

    def _plan_memory(self, known: Mapping[Node, tuple[Type, ...]]) -> None:
        """Places results in memory, by the types of groups that are known."""
        kernels = self._kernels
        offers = {node: kernels.offers(node, types) for node, types in known.items()}

        def offered(node: Node, output: int) -> Sequence[int]:
            if node in self._groups:
                return offers.get(node, {}).get(output, ())
            return (0,) if in_place_form(node) is not None else ()

        self._arena = Arena(self.graph, tuple(self._groups), offered)
        for node, group in self._groups.items():
            group.arena = self._arena
            kernels.taken[node] = self._arena.taken(node)

    @property
    def laid_out(self) -> dict[Value, int]:
        """The bytes that kernels of convolutions and products hold of each weight beside it, with their tables, from the first run on."""
        held = dict[Value, int]()
        for choice in self._layers.values():
            weight = choice.layer.weight
            held[weight] = held.get(weight, 0) + held_bytes(choice.layer, choice.device.host.target)
        return held

    @property
    def kernels(self) -> KernelList:
        """Every kernel of a group compiled so far; groups of unknown shapes, and calls with other strides, add theirs when they run.

        Kernels of convolutions and products are not among them: they are not made of a group, and have no loop nest that could be shown.
        `remarks` names them, `laid_out` says what they hold."""
        return KernelList(self._kernels.compiled.values(), self._why_none)

    @public
    def slowdown(self, after: Graph, groups: Sequence[Node]) -> float | None:
        """Returns how much longer groups of one class run in a graph where one body serves them all, measured now, as a fraction
        of their time; None where it cannot be measured. `irs.dedup(f).recommend(executable=x, measure=True)` calls it."""
        if self.device == "reference":
            return None
        before = self.graph if set(groups) <= self._groups.keys() else self.written
        return merge_slowdown(before, after, groups, partial(compile_graph, device=self.device))

    @property
    def without_kernels(self) -> int:
        """The number of groups that have run without a kernel; the remarks say why."""
        return len({remark.subject for remark in self._kernels.remarks})

    @property
    def remarks(self) -> tuple[Remark, ...]:
        """Groups that run without a kernel, kernels that the disk cache refused, ops that `exact` leaves to torch, each with
        the reason, what was worked on once (`x.history` has these passes) and why other ops were not, for each op of
        another language the library that runs it, the convolutions and products that kernels or oneDNN compute,
        how loops run, and on a GPU whether calls are replayed as a CUDA graph."""
        return Remarks(
            (*self.told, *self._kernels.remarks, *self._kernels.unsaved(), *self._kept_ops, *self._told_of_loops, *self._told_of_replays),
            (self.graph,),
        )

    @cached_property
    def _loop_forms(self) -> dict[Node, LoopForm | str]:
        """Each loop that could run in machine code, or why it does not."""
        first = next(iter(self._groups), None)
        if first is None or self._is_planned or not isinstance(self._kernels.device_of(first), CpuDevice):
            return {}
        return {node: loop_form(self.graph, node, self._groups) for node in self.graph.nodes() if node.op == "prim::Loop"}

    @cached_property
    def _layers(self) -> dict[Node, LayerChoice]:
        """The convolutions and products that kernels compute."""
        device = self._kernels.device_of(self.graph.body.nodes[0]) if self._may_have_layers and self.graph.body.nodes else None
        return layers_of(self.graph, self._groups, device) if isinstance(device, CpuDevice) else {}

    @property
    def _told_of_loops(self) -> tuple[Remark, ...]:
        told = []
        for node, form in self._loop_forms.items():
            if why := form if isinstance(form, str) else form.declined:
                told.append(Remark("missed", "native-loop", node, f"Python runs it turn by turn: {why}"))
            elif isinstance(form, LoopForm):
                what = f"machine code runs its turns, which only call kernels, if there are {form.least} or more"
                told.append(Remark("passed", "native-loop", node, what))
        return tuple(told)

    @property
    def _told_of_replays(self) -> tuple[Remark, ...]:
        told = [(replays.is_recorded, replays.because) for ref in self._replays if (replays := ref()) is not None]
        told += [(False, self._why_not_replayed)] if self._may_be_replayed and self._programs and self._why_not_replayed else []
        subjects = (*self._groups, *self.graph.body.nodes)[:1]
        return tuple([
            Remark("passed" if is_done else "missed", "cuda-graph", subject, f"calls {'' if is_done else 'do not '}replay a graph: {why}")
            for is_done, why in dict.fromkeys(told) for subject in subjects
        ])  # fmt: skip

    @property
    def is_replayed(self) -> bool:
        """Whether calls with some arguments replay a CUDA graph by now; the remarks say why, or why not."""
        return any(replays.is_recorded for ref in self._replays if (replays := ref()) is not None)

    @cached_property
    def _why_not_replayed(self) -> str:
        from irscope.runtime.cuda import why_not_replayed

        return why_not_replayed(self.graph)

    def _replays_of(self, program: BoundProgram) -> Replays | None:
        """Returns what replays the calls of a new signature; None if nothing may."""
        if not program.is_torch or program.code.stamp is not None or self._why_not_replayed:
            return None
        from irscope.runtime.cuda import Replays, TorchRecorder

        recorder, bound = TorchRecorder(import_module("torch")), [tensor for tensor, _ in program.bound]
        made = Replays(recorder, program.computed, program.code.template, program.slots, bound, self._capture_arenas)
        self._replays = [*[ref for ref in self._replays if ref() is not None], ReferenceType(made)]
        return made

    @cached_property
    def _kept_ops(self) -> tuple[Remark, ...]:
        found = [(node, runs_in(node)) for node in self.graph.nodes()]
        kept = [Remark("analysis", "kept-op", node, f"{node.op} runs in {library}") for node, library in found if library]
        layers = self._layers
        own = [Remark("analysis", "layer", node, choice.because) for node, choice in layers.items()]
        quicker = [node for node, _ in found if self._is_quick and self.device == "cpu" and node not in layers and is_product(node)]
        told = "oneDNN multiplies, which is quicker here than what torch takes; the sum is rounded in another order"
        if self._is_planned:
            told = "torch multiplies: oneDNN, which is quicker here, takes memory of its own at each call, beside what is planned"
        return (*kept, *own, *[Remark("missed" if self._is_planned else "analysis", "onednn", node, told) for node in quicker])

    def source(self, index: int = 0) -> SourceText:
        """Returns the text of a kernel. Raises UnknownNumber for a number that no kernel has."""
        return self.kernels[index].source

    def _why_none(self) -> str:
        if not self._groups:
            return "the program has no fusion groups: if irs.fuse(graph) makes none either, its .why_not(a, b) says why"
        if self.device == "reference":
            return 'the device "reference" interprets op by op'
        if remarks := (*self.told, *self._kernels.remarks):
            return remarks[0].because
        if all(group.known_types() is not None for group in self._groups.values()):
            return "its groups have nothing to compute: their tensors have no elements"
        return "it is compiled when the program first runs, or at once for a graph of irs.load(program, *arguments)"

    @_marked_for_dynamo
    def __call__(self, *args: Any) -> Any:
        """Runs the program.

        Raises ArgumentError for arguments that the program was not loaded for, and RunError when an op fails."""
        if self.graph.modes is not None:  # warns, once per change, of a model in other modes than when it was captured
            text = self.graph.modes()
            if text and text != self._last_warning:
                warn_caller(text)
            self._last_warning = text
        return self._calls.last(args, self._by_signature)

    def _by_signature(self, args: Sequence[Any]) -> Any:
        """Runs the program by the function for arguments of this signature."""
        if self.device != "cpu" or not any(map(is_jaxs_own, args)):
            return self._calls.like(args)(args, self._as_new)
        # the memory of JAX's arrays is as good as that of NumPy's; results are JAX's if the first array is
        lent = tuple([borrow(arg, may_write=self._writes) if is_jaxs_own(arg) else arg for arg in args])
        result = self._calls.last(lent, self._by_signature)
        gives_one = len(self.graph.outputs) == 1
        results = return_arrays([result] if gives_one else result, args, self.graph.bound.values())
        return results[0] if gives_one else results

    def _as_new(self, args: Sequence[Any]) -> Any:
        """Runs the program on arguments for which there is no function; if they come again, generates one.

        None can be generated for arguments that a run has to convert."""
        accepted = self._accepted(args)
        is_as_given = len(accepted) == len(args) and all(map(operator.is_, accepted, args))
        if not is_as_given or self.device == "reference":
            return self._run(accepted)
        program = self._program(self._library_of(args))
        key = self._calls.key(args, program.given(args))
        call = None if key is None else program.call(args, self._storages, self._only)  # before the run, which may alter them
        result = self._run(accepted)
        if call is not None:
            self._calls.keep(key, call)
        return result

    def _library_of(self, args: Sequence[Any]) -> str:
        """Returns the library that computes a call: `torch` of tensors, `lent` (torch, of arrays) or `numpy` (on a GPU, CuPy)."""
        if self._is_torchs or are_torchs(args):
            return "torch"
        return "lent" if self.device == "cpu" and self._lends(args) else "numpy"

    def library(self, *args: Any) -> str:
        """Returns the library that runs the ops outside kernels on such arguments: `"torch"`, on arrays too where it is installed and
        quicker, `"numpy"` or `"cupy"`. Many pointwise ops of arrays are always NumPy's, ops of another language (`remarks`) their own's.

        >>> import irscope as irs, numpy as np
        >>> run = irs.compile(irs.trace(lambda x: np.tanh(x).T @ x, (4, 4)))
        >>> run.library(np.ones((4, 4), np.float32)[::-1])  # torch has no negative strides
        'numpy'
        """
        name = "numpy" if self.device == "reference" else self._library_of(flatten_arguments(args, self.graph))
        return "torch" if name == "lent" else "cupy" if name == "numpy" and self.device == "cuda" else name

    @property
    def lacks_torch(self) -> bool:
        """Whether NumPy runs ops that torch would run on the same arrays if it was installed."""
        return self.device == "cpu" and not self._is_torchs and self._runs_in_torch and not torch_is_there()

    def _lends(self, args: Sequence[Any]) -> bool:
        """Checks whether torch computes on arrays that are not torch's: where it is installed and gains time outside kernels, and
        in element types that NumPy cannot compute in."""
        arrays = [leaf for leaf in leaves(args) if hasattr(leaf, "dtype")]
        if self._has_small_floats or any(is_small_float(array.dtype) for array in arrays):
            return torch_is_there()
        fit = self._runs_in_torch and all(can_share(array, writes=self._writes) for array in arrays)
        return fit and torch_is_there() and self._surroundings.is_plain()

    @cached_property
    def _runs_in_torch(self) -> bool:
        return not self.exact and is_lendable(self.graph, self._groups)

    @cached_property
    def _writes(self) -> bool:
        return may_write(self.graph)

    @public
    def run(
        self, args: Sequence[Any], *, launched: Callable[[Node], object] | None = None,
        footprints: list[PeakMemory] | None = None,
    ) -> Any:  # fmt: skip
        """Runs the program; `launched` is called for each node that launches a kernel, ours or the library's, before it does.
        A `PeakMemory` that follows the run is appended to `footprints`."""

        def visit(node: Node) -> None:
            if launched is not None and (node in self._groups or not (node.op in GROUPS or free_nodes(self.graph)(node))):
                launched(node)

        return self._run(self._accepted(args), None if launched is None else visit, footprints)

    def _accepted(self, args: Sequence[Any]) -> Sequence[Any]:
        """Returns the arguments, one for each input, with the numbers that TorchScript would convert. Raises ArgumentError."""
        args = flatten_arguments(args, self.graph)
        self._check(args)
        if self._storages is not None:
            self._storages(args)
        if not self._floats:
            return args
        return [float(arg) if index in self._floats and type(arg) is not float else arg for index, arg in enumerate(args)]

    def _run(self, args: Sequence[Any], visit: Callable[[Node], None] | None = None, footprints: list[PeakMemory] | None = None) -> Any:
        """Runs the program on accepted arguments, which it converts to its library."""
        library = self._library_of(args)
        is_seen = library != "numpy" and self._surroundings.node_by_node(args)
        if self.device == "reference":
            return self._interpret(args)
        results = self._program(library, is_seen=is_seen).run(args, visit, footprints)
        return results[0] if len(results) == 1 else results

    def captured(self, *args: Any) -> Captured:
        """Records a run as one CUDA graph: `c = x.captured(*args)`, then `c(*args)` or `c()` replays it.

        A replay starts all kernels with one driver call, which pays off for small tensors. It copies its arguments into
        the graph's memory, and returns the same tensors every time: copy them to keep them. Raises RunError for a program
        that reads tensor elements during the run, DeviceUnavailable for a program not compiled for a GPU, or without one.
        """
        if self.device != "cuda":
            raise DeviceUnavailable(f"a program for {self.device!r} has no CUDA graph", hint='compile it with device="cuda"')
        from irscope.runtime.cuda import CupyRecorder, TorchRecorder, captured

        library = self._library_of(args)
        self._program(library)  # says what is missing
        recorder = TorchRecorder(import_module("torch")) if library == "torch" else CupyRecorder(imported_cupy())
        return captured(lambda *own: self.run(own), args, recorder, self._capture_arenas())

    def _capture_arenas(self) -> list[CaptureArena]:
        """Returns the memory between launches of each device whose kernels run, for the thread that captures."""
        from irscope.runtime.cuda import CudaDevice

        used = {id(kernel.device): kernel.device for kernel in self.kernels}
        used.setdefault(id(shared := shared_device("cuda")), shared)
        return [device.held for device in used.values() if isinstance(device, CudaDevice)]

    def launches(self, *args: Any) -> int:
        """Counts the groups that one run launches, and the calls of the library; it runs the program."""
        nodes: list[Node] = []
        self.run(args, launched=nodes.append)
        return len(nodes)

    def peak_bytes(self, *args: Any) -> int:
        """Returns the peak memory of one run's tensors, those that `irscope.runtime.program.arena` counts; it runs the program."""
        footprints: list[PeakMemory] = []
        self.run(args, footprints=footprints)
        return footprints[0].peak if footprints else 0

    @public
    def has_kernels(self, node: Node) -> bool:
        """Checks whether a node is a group that runs as kernels here, where one can be built."""
        return node in self._groups

    @public
    def threads_of(self, group: Node) -> int:
        """Returns the threads that a group's kernels use, on the arguments it last ran on; 1 for any other node."""
        return self._kernels.threads.get(group, 1)

    @property
    def is_direct(self) -> bool:
        """Whether the program is exactly one group, so that a call goes to it directly."""
        return self._only is not None

    def stamped(self, args: Sequence[Any], stamp: Stamp) -> Code:
        """Makes later runs on arguments of this library leave a stamp after each instruction; returns the code that does so.

        Runs are otherwise unchanged. Only for a program that has no other users."""
        self._only, self._calls = None, KnownCalls()
        program = self._program(self._library_of(args))
        program.code = program.code.stamped(stamp)
        return program.code

    @property
    def memory_plan(self) -> MemoryPlan | None:
        """The plan by which it runs: kernel results have a place, library results have their own memory. None unless it was
        compiled with `memory="planned"`; `peak_bytes` measures the effect."""
        return None if self._arena is None else self._arena.plan

    def _program(self, library: str, *, is_seen: bool = False) -> BoundProgram:
        key = library, is_seen
        if key in self._programs:
            return self._programs[key]
        if self.exact and library == "numpy":
            raise ArgumentError(
                'a program compiled with exact="torch" takes torch tensors', hint="pass torch.from_numpy(array) for an array"
            )
        if self.device == "cuda":
            here = shared_device("cuda").availability()
            if not here:
                raise DeviceUnavailable(
                    f"the device 'cuda' cannot run here: {here.what}",
                    hint=f"{here.fix}; x.source(i) and x.kernels show the kernels without a GPU, device='cpu' runs them",
                )
        with self._lock:
            if key in self._programs:  # another thread has made it
                return self._programs[key]
            if is_seen:
                made = BoundProgram(self.written, {}, library, self.device, None, self._surroundings)
            else:
                made = BoundProgram(
                    self.graph, self._groups, library, self.device, self.pool, self._surroundings, self._arena, quick=self._is_quick,
                    loops={node: form for node, form in self._loop_forms.items() if isinstance(form, LoopForm)},
                    layers=self._layers, hasher=self._hasher, replays_of=self._replays_of if self._may_be_replayed else None,
                )  # fmt: skip
            self._programs[key] = made
            return made

    def _interpret(self, args: Sequence[Any]) -> Any:
        from irscope.runtime.reference import run_reference

        native = [in_native_order(arg, may_write=self._writes) for arg in args]
        gradients = Gradients(self.graph, sys.modules["torch"]) if self._library_of(args) == "torch" else None
        recorded = gradients is not None and gradients.torch.is_grad_enabled()
        wanting = gradients.wanted(args) if gradients is not None and recorded else []
        results = run_reference(self.graph, *(on_host(arg, may_write=self._writes) for arg in native))
        if gradients is not None:
            results = tuple(as_torch(result) for result in results)
            results = gradients.closed(results, wanting, args) if wanting else results
        return results[0] if len(results) == 1 else results

    def _check(self, args: Sequence[Any]) -> None:
        if len(args) != len(self._free):
            check_count(self.graph, args)  # reports what is missing
        symbols: dict[str, int] = {}
        for check, argument in zip(self._checks, args, strict=True):
            if check is not None:
                check(argument, symbols)

    def __copy__(self) -> Executable:
        return self

    def __deepcopy__(self, memo: object) -> Executable:
        return self  # a program has no state that a caller can observe

    def __reduce__(self) -> str:
        what = "a compiled program cannot be pickled: its kernels are machine code of this process"
        raise ArgumentError(what, hint="pickle the graph, and compile it where it is to run: irs.compile(irs.fuse(graph))")

    def __repr__(self) -> str:
        counts = f"{plural(len(self._groups), 'group')}, {plural(len(self.kernels), 'kernel')}"
        here = shared_device("cuda").availability() if self.device == "cuda" else None
        done = f"compiled in {time_words(1e9 * self.compile_seconds)}" if here or here is None else f"not compiled, as {here.what}"
        return f"<Executable {self.graph.name!r} on {self.device}: {counts}, {done}>"


def devices_for_groups(name: str, share: bool, store: ObjectStore | None, threads: int | None) -> Callable[[Node], Device]:
    """Returns a function from a group to the device that compiles its kernels; a new one each if kernels are not shared."""
    if name == "reference":
        return lambda group: new_device("numpy")
    first = shared_device(name)
    if isinstance(first, CpuDevice) and (store is not None or threads not in (None, first.threads)):
        first = CpuDevice(store=store or first.store, threads=threads)
    if share:
        return lambda group: first
    return lambda group: CpuDevice(store=first.store, threads=threads) if isinstance(first, CpuDevice) else new_device(first.name)


def shared_device(name: str) -> Device:
    """Returns the shared device of this name, or NumPy's where the processor's compiler is missing.

    A GPU that is absent is returned too: its kernels can be inspected, and a call reports what is missing."""
    device = _SHARED.get((name, user_cache_directory()), lambda: new_device(name))
    return new_device("numpy") if isinstance(device, CpuDevice) and not device.availability() else device


_SHARED: Final[KernelCache[Device]] = KernelCache()
"""The devices of this process by name and cache directory: all programs compiled in the process share their kernels."""
