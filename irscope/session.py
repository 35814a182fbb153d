"""The public verbs, each wired through the layers once: load, compile, compare, explore, write_report."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from irscope._base.words import warn_caller
from irscope.errors import ArgumentError, LoadError, public
from irscope.files import write_file
from irscope.ir import (
    FLOAT,
    INT,
    NONE,
    ClassType,
    Graph,
    Module,
    OptionalType,
    TensorType,
    Type,
    Value,
    argument_type,
    check_count,
    flatten_arguments,
    is_subtype,
)

if TYPE_CHECKING:
    from irscope.report.pages import Exploration
    from irscope.runtime.device import MissLog
    from irscope.runtime.measure import Comparison
    from irscope.runtime.profile import Profile, TraceReading
    from irscope.runtime.program import Executable
    from irscope.transforms.base import History
    from irscope.transforms.dedup import Dedup, Relation
    from irscope.widgets.explorer import Explorer, Timeline

_Measure = Literal["at once", "when asked", "never"]


@public
def load(
    source: Any = None, *example_args: Any, distinct_inputs: bool = False, name: str | None = None, graph: str | None = None,
    trust: bool = False, backward: bool = False, loss: Callable[..., Any] | None = None, targets: Sequence[Any] = (),
    missing_weights: Literal["inputs"] | None = None, **unknown: Any,
) -> Any:  # fmt: skip
    """Read a program from wherever it is.

    `source` is IR text, a path (`.ir`, `.pt`, `.pt2`, `.onnx`, `.mlir`, `.hlo`), MLIR's text, bytecode or module, HLO's text, a
    TorchScript function or module, an exported program, or an `nn.Module` or Python function with example arguments: torch's
    tensors, JAX's arrays (or `jax.jit(f).lower(...)`), or NumPy's arrays (`irs.trace`). Example arguments, one per input that is
    not a parameter, fix element types, shapes and strides: the compiled program takes just these.

    Returns a `Graph`. A file of several functions or executables is a `Module` of graphs; with example arguments, and
    for the other verbs, it becomes its one public function with the calls inlined, or the one named by `graph`.

    `distinct_inputs` is your promise that no two inputs share memory. (Parameters share memory if they are tied, and with no argument:
    `graph.storages`; a compiled program for whose writes this matters checks the addresses at each call.) `trust` lets a file run code
    of its author when it is loaded, as pickles, compiled libraries and some TorchScript do; without it such files are refused. With
    `missing_weights="inputs"` the weights of an ONNX model whose files are not there are inputs of the types that it declares, and so are
    constants whose elements a text of HLO leaves out.

    With `backward` the result is the joint graph of a torch model or function and its gradients as autograd computes them. Its results
    are the outputs, or the `loss` of the outputs and `targets` (inputs after the arguments), then a gradient for each parameter and
    argument that `requires_grad`: `graph.gradients["fc.weight"]` is called `%grad_fc.weight`, and is None where autograd's is. A model
    that returns one number is its own loss; without a loss the gradients of the outputs are the last inputs (`%grad_output`).

    Threads may load at the same time. While torch captures a model, that holds no real tensors: no other thread may run it meanwhile.

    Raises LoadError, ParseError, CaptureError, ArgumentError or MissingExtra, each with a hint.

    >>> import numpy as np
    >>> g = load("graph(%x : Tensor):\\n  %y : Tensor = aten::relu(%x)\\n  return (%y)", np.zeros((2, 3), np.float32))
    >>> str(g.value("y").type)
    'Float(2, 3, strides=[3, 1], device=cpu)'
    """
    from irscope import frontends
    from irscope.ops.node_check import verify

    _refuse_options(unknown)
    if source is None:
        raise LoadError("load takes a program, and got none", hint="irs.load(model, x), or irs.load('model.onnx')")
    if name is not None and not isinstance(name, str):
        raise ArgumentError(f"a program is named by a text, not by {name!r}", hint='irs.load(program, name="model")')
    if backward:
        from irscope.frontends.torch.backward import joint_graph
        from irscope.ir.text import number_values

        joint = joint_graph(source, example_args, loss=loss, targets=targets, name=name)
        verify(joint)
        number_values(joint)
        return _with_storages(joint, distinct_inputs)
    if loss is not None or len(targets):
        raise ArgumentError("a loss and targets are for gradients", hint="irs.load(model, x, backward=True, loss=…)")
    made = source
    if is_compiled(source):
        from irscope.compilers.inductor.dynamo import original_of

        told = "what torch.compile returned is read as the program before it; irs.decisions(program, *args) shows what was compiled"
        warn_caller(told)
        made = source = original_of(source)  # torch's wrapper would stand in the path of each module
    if not isinstance(source, Module):
        made = frontends.load(source, *example_args, name=name, trust=trust, missing_weights=missing_weights)
    if isinstance(made, Module):
        if not example_args and graph is None:
            return made
        made = one_graph(made, graph)
    elif graph not in (None, made.name):
        raise ArgumentError(f"the program has one graph, {made.name!r}, not {graph!r}", hint="leave out graph=…")
    verify(made)
    made = _with_storages(made, distinct_inputs)
    is_exact = made.functional == "StableHLO" and all(isinstance(v.type, TensorType) and v.type.is_static for v in made.inputs)
    if example_args and not is_exact:
        return _refine(made, example_args)
    return made


def _refuse_options(given: Iterable[str], verb: Callable[..., Any] = load) -> None:
    """Raise ArgumentError for the first that is no option of `load`, through which this verb reads programs."""
    known = signature(load).parameters
    first = next((each for each in given if each not in known), None)
    if first is not None:
        near = get_close_matches(first, {*known, *signature(verb).parameters}, 1)
        call = f"irs.load(lambda x, {first}: f(x, {first}={first}), x, {first})"
        hint = f"did you mean {near[0]}?" if near else f"arguments go by position; where a program takes one by name, {call}"
        raise ArgumentError(f"there is no option {first!r}", hint=hint)


def is_compiled(source: object) -> bool:
    """Check whether a function or model is what `torch.compile` returned, or was compiled in place."""
    if not callable(source) or "torch" not in sys.modules:
        return False
    from irscope.compilers.inductor.dynamo import original_of

    return original_of(source) is not None


def _with_storages(graph: Graph, distinct_inputs: bool) -> Graph:
    """Return the graph with what is known, or promised, of the memory of its inputs."""
    from dataclasses import replace

    from irscope._base.nested import by_storage

    storages = {} if graph.functional else by_storage(graph.bound)
    if storages or distinct_inputs:
        return replace(graph, storages=storages, distinct_inputs=distinct_inputs or graph.distinct_inputs)
    return graph


def one_graph(program: Any, name: str | None = None) -> Any:
    """Return a Module's graph of this name, or its one public graph, with the calls inlined; anything else as it is.
    Raises ArgumentError."""
    from irscope.ir.module import inlined

    return inlined(program, name or "") if isinstance(program, Module) else program


def _refine(graph: Graph, arguments: Sequence[Any]) -> Graph:
    """Return the graph with the types that follow from example arguments and from the parameters it holds."""
    from irscope.analysis.per_graph import with_types

    types = _given_types(graph, arguments)
    types |= {value: argument_type(tensor) for value, tensor in graph.bound.items()}
    return with_types(graph, types)


def _given_types(graph: Graph, arguments: Sequence[Any]) -> dict[Value, Type]:
    """Return the types of example arguments, by input. Raises ArgumentError for those that the graph does not take."""
    free = graph.free_inputs
    arguments = flatten_arguments(arguments, graph)
    check_count(graph, arguments, "example argument")
    types = dict[Value, Type]()
    for value, argument in zip(free, arguments, strict=True):
        given = argument_type(argument)
        if not _may_be(given, value.type):
            raise ArgumentError(
                f"the example argument for %{graph.names[value]} is {given}, and the program takes {value.type}",
                hint="pass one like that, or load the program again from its source",
            )  # fmt: skip
        types[value] = FLOAT if value.type == FLOAT else given
    return types


def _may_be(given: Type, declared: Type) -> bool:
    """Check whether an argument of one type fits where a program declares another; extents and dtypes must agree."""
    if isinstance(declared, OptionalType):
        return given == NONE or _may_be(given, declared.element)
    if not (isinstance(given, TensorType) and isinstance(declared, TensorType)):
        stranger = isinstance(given, ClassType) and isinstance(declared, TensorType)
        return (given == INT and declared == FLOAT) or (is_subtype(given, declared) and not stranger)
    if given.dtype != (declared.dtype or given.dtype):
        return False
    if given.shape is None or declared.shape is None:
        return True
    if len(given.shape) != len(declared.shape):
        return False
    return all(b == a or not isinstance(b, int) for a, b in zip(given.shape, declared.shape, strict=True))


@public
def compile(
    program: Any, *example_args: Any, device: str = "cpu", share_kernels: bool = True, exact: Literal["torch"] | None = None,
    memory: Literal["planned"] | None = None, freeze: bool = True, capture: bool = True,
) -> Executable:  # fmt: skip
    """Make a program runnable: fusion groups become kernels, everything else runs through torch or NumPy.

    Takes a Graph or a Fusion as it is, or anything that `load` takes with example arguments, which is then fused:
    `irs.compile(model, x)`.
    `device` is `"cpu"`, `"cuda"` or `"reference"` (the NumPy interpreter). With `share_kernels`, groups with the same
    kernel are compiled once. `x(*args)` runs it, `x.kernels` and `x.source(i)` show what was generated.

    What depends on weights alone is worked on once: of a Fusion for the processor, where torch is installed, batch norms that do not
    train become other weights, convolutions are channels last, and they and large products oneDNN's with what follows them, where that
    pays. Results then differ by rounding (in float32 about 1e-6 of the terms that are added up). `x.history` has a step for each,
    `x.remarks` the reasons, `x.graph` what runs; `freeze=False` runs the fusion as it is, `irs.fuse(g, freeze=True)` shows the other.
    Weights that are written, in whatever way, are worked on again at the next call.

    Precision: each step of an op is as exact as `irs.error_bound` says, and a kernel rounds between ops no more often than op-by-op
    execution does. Inside a group, halves compute in float32 and are rounded where they leave it; a product and a sum are rounded once
    (FMA) where the machine can; denormal numbers are kept. So `x - y * 2.0` may be finite where the product alone overflows. Convolutions
    and products outside groups may be computed by kernels of our own, or by oneDNN, which round a sum in another order than torch
    (`x.remarks` names them).
    `exact="torch"` returns the bits of torch's CPU ops instead, except for NaN payloads: kernels round every op to its element type,
    contract nothing, and leave to torch what it computes differently, each with a remark. It takes torch's tensors, and is slower.

    A program computes no gradients. Outside of `torch.no_grad()`, results for which the model would record one raise an error when it
    is asked for, and torch prints them with `grad_fn=<Error>`: the numbers are right.

    With `memory="planned"` kernels write their outputs where `irs.memory_plan` places them, in an arena that each run
    allocates, except for results: `x.memory_plan.peak` is the planned peak, `x.peak_bytes(*args)` the measured one.

    For `"cuda"`, `x.kernels[i]` also has `registers`, `spill_bytes` and `ptx`, and says what bounds its speed; none of
    that needs a GPU. Tensors of torch, CuPy and JAX are used in place; NumPy's arrays are copied there and back. A program that is called
    with tensors of the same shapes again, and makes the GPU wait for the host, is recorded as one CUDA graph and then replayed, unless
    `capture=False`: the results are new tensors all the same, the graph keeps its memory, `x.remarks` says why, or why not.
    `x.captured(*args)` records a run as a graph of your own, without a copy of the results.

    >>> import irscope as irs, numpy as np
    >>> x = np.array([[-1.0, 2.0]], np.float32)
    >>> g = irs.load("graph(%x : Tensor):\\n  %y : Tensor = aten::relu(%x)\\n  %z : Tensor = aten::tanh(%y)\\n  return (%z)", x)
    >>> irs.compile(irs.fuse(g))(x).round(3).tolist()
    [[0.0, 0.9639999866485596]]
    """
    from irscope.runtime.program import compile_graph

    if example_args and isinstance(program, Graph):
        program = load(program, *example_args)
    made = _program(program, example_args, exact)
    return compile_graph(made, device=device, share_kernels=share_kernels, exact=exact, memory=memory, freeze=freeze, capture=capture)


def _decided(source: Any) -> Any:
    """Return the groups of what another compiler decided; anything else as it is."""
    from irscope.compilers.record import Decisions, Program

    return source.fusion if isinstance(source, Decisions | Program) else source


def _program(source: Any, arguments: Sequence[Any], exact: Literal["torch"] | None) -> Any:
    """Return a Graph as it is, a Fusion at the exactness asked for, and otherwise the fused graph that `load` reads
    from the source and arguments."""
    from irscope.transforms.fusion import Fusion, fuse

    source = _decided(source)
    if isinstance(source, Fusion):
        return source if exact is None else source.exactly(exact)
    if not arguments or isinstance(getattr(source, "graph", source), Graph) or type(source).__module__.startswith("irscope."):
        return one_graph(source)
    return fuse(load(source, *arguments), exact=exact)


@public
def compare(
    program: Any, *args: Any, devices: Sequence[str] | None = None, eager: Callable[..., Any] | None = None,
    peers: Mapping[str, Callable[..., Any]] | Sequence[str] = (), repeats: int = 7, keep_memory: bool = True,
    rotate: bool = False, exact: Literal["torch"] | None = None, steps: Sequence[Relation] | bool = (),
    ways: Sequence[str] | None = None, threads: int | None = None,
) -> Comparison:  # fmt: skip
    """Run a program op by op, fused, and fused with shared kernels, and compare the times and errors.

    Takes a Graph, a Fusion, or anything that `load` takes with these arguments; the model or function that it was read from is timed
    as well, and the others against it. For the result of `decisions` the rows are irscope's own fusion, the program before it was compiled,
    the compiled program itself, and that compiler's groups with irscope's kernels, so that grouping and code can be told apart.
    `devices` are `"cpu"` and `"cuda"`, by default the one that the arguments lie on. All runs alternate in one process with the same
    allocator, `repeats` times and for 50 ms each; the error is against a float64 run. There is no ratio of times whose middle halves
    overlap, or that vary too much. `.table()` is a DataFrame with the speed against the machine's copy bandwidth, `.chart()` a figure,
    `.roofline()` another.

    `eager` is a model to be timed too, `peers` are other functions of the same arguments: `{"jax": lambda *_: jitted(a, b)}`, or
    `["torch", "torch.compile"]`, built from the graph. `ways` are some of `["op by op", "fused", "fused + dedup", "frozen"]`, all by
    default; `"frozen"` is what `compile` runs where that is another program than the fusion shows. `steps=True`, or some steps of
    dedup's ladder, adds a row for each. `threads` is by default torch's number, and one where other programs keep the processors busy.
    With `keep_memory=False` all pay the page faults of memory that is returned to the system, with `rotate=True` no operand is found in
    a cache. `exact` is that of `compile`.
    """
    from irscope.compilers.record import Decisions
    from irscope.runtime.arrays import are_torchs
    from irscope.runtime.measure import compare as run
    from irscope.runtime.measure.fx_export import torch_peer

    given_back: dict[str, Sequence[int | None] | None] = {}
    if isinstance(program, Decisions):
        if program.breaks:
            hint = "irs.compare(d.programs[0], *its_arguments) compares one part"
            raise ArgumentError(f"{program.compiler} compiled this in parts, and none of them is what the whole call does", hint=hint)
        names = (peers,) if isinstance(peers, str) else () if isinstance(peers, Mapping) else peers
        asked = peers if isinstance(peers, Mapping) else {name: torch_peer(name, program.graph, eager or program.eager) for name in names}
        peers = {**program.rivals(), **asked}
        args = args if program.flattened is None else program.flattened(*args)
        whole = program.program
        given_back = dict.fromkeys(("eager", whole.compiler, *names), whole.given_back)
        program, eager, ways = whole.graph, eager or program.eager, ways or ("fused",)
    made = _program(program, args, exact)
    if eager is None and made is not program and callable(program) and are_torchs(args):
        eager = program
    return run(
        made, *args, devices=devices, eager=eager, peers=peers, repeats=repeats, keep_memory=keep_memory, rotate=rotate, exact=exact,
        steps=steps, ways=ways, threads=threads, given_back=given_back,
    )  # fmt: skip


@public
def cache(device: Literal["cpu", "cuda"] = "cpu") -> MissLog:
    """The user's directory of compiled kernels: its contents, and why kernels were not found in it.

    Kernels are keyed by their canonical form: another process, or another model with the same computation in another
    order, finds them. `.table()` has a row for each kernel that had to be compiled, with the nearest one and how it
    differs ("same but for 0.5 → 0.25 at mul#0"); `.summary()` counts entries, bytes and uses. `irscope cache clear`
    empties it.

    >>> import irscope as irs
    >>> list(irs.cache().table())
    ['kernel', 'nearest', 'differs', 'compile ms']
    """
    from irscope.runtime.device import MissLog, user_stores

    stores = user_stores()
    if device not in stores:
        raise ArgumentError(f"the device {device!r} keeps no kernels", hint=f"choose one of {', '.join(stores)}")
    return MissLog(stores[device])


class _ProfileVerb:
    """Measure where the time, the bytes and the memory of a program go, node by node.

    Takes a Graph, a Fusion, a result of `compile`, or anything that `load` takes with these arguments. It alternates
    op-by-op and fused runs, and what you wrote where that is a NumPy or JAX function, for `seconds`, or until the order
    of the slowest nodes is certain; Ctrl-C stops it and keeps what was measured. `device` is `"cpu"` or `"cuda"`, by default
    the one that the arguments lie on; `threads` is as for `compare`. The result displays itself; `p.table(by="line")` sums by
    node, group, op, module, line or class, `p.top(10)` has the slowest nodes, `p.remarks` what would help,
    `p.try_(remark)` measures it, `p.diff(q)` compares with another profile, `p.save("x.json")` writes a trace for
    Perfetto. `irs.profile.read(trace, graph)` maps a trace of `torch.profiler` onto a graph.

    Raises ArgumentError for arguments that the program does not take, and whatever `load` raises.

    >>> import irscope as irs, numpy as np
    >>> x = np.ones((64, 64), np.float32)
    >>> p = irs.profile(lambda a: np.tanh(a @ a) + 1, x, seconds=0.1)
    >>> sorted(p.ways), p.table(by="op", way="op by op")["op"].nunique()
    (['fused', 'op by op'], 3)
    """

    @public
    def __call__(
        self, source: Any, *args: Any, device: str | None = None, seconds: float = 2.0,
        exact: Literal["torch"] | None = None, threads: int | None = None,
    ) -> Profile:  # fmt: skip
        from irscope.runtime.profile import Profile, measure_program
        from irscope.runtime.program import Executable

        made = source if isinstance(source, Executable) else _program(source, args, exact)
        return Profile(measure_program(made, args, device=device, seconds=seconds, exact=exact, threads=threads))

    @public
    def read(self, trace: str | Path | Mapping[str, Any], graph: Graph) -> TraceReading:
        """Map a trace of `torch.profiler` (a file of `prof.export_chrome_trace`, or its data) onto a graph. Returns a
        profile like any other, with the times of the trace; its warning names what of the trace is not in the graph.
        Raises LoadError for a file that is not such a trace."""
        from irscope.ir import graph_of
        from irscope.runtime.profile import read

        return read(trace, graph_of(graph, "read a trace over"))

    def __repr__(self) -> str:
        return "irs.profile: where the time, the bytes and the memory of a program go"


profile = _ProfileVerb()


@public
def explore(
    source: Any, *example_args: Any, measure: bool | None = None, sources: str | Path | None = None,
    threads: int | None = None, **load_options: Any,
) -> Explorer:  # fmt: skip
    """Show a program in linked views, in one notebook cell.

    What another compiler decided (`irs.decisions`) is shown with its kernels, their texts, graph breaks and guards, and with irscope's own
    groups of the same program as branches beside it. `irs.explore(d1, d2, x)` has what several compilers decided as branches of one strip,
    with how many of the first one's ops were found in each of the others, and which were not.

    Takes anything that `load` takes, a Graph, a Fusion, the result of a Pipeline (`timeline` shows its passes), a Profile, whose colours
    mean time, bytes, memory or the share of the roof (`e.profile = p` adds one later), a Dedup, which opens the Classes table, or a
    Survey of many models, which shows the classes and the explorer of any model that has the chosen one. With example arguments the
    Timing table offers to compile and measure the program, which takes seconds (`threads` as for `compare`); `measure=True` does so at
    once. The result's `selection` reads and sets the selection in all views. Source code is shown where Python knows it in this process;
    for a program from a file or a text, only if it is in the folder `sources`.
    """
    from irscope.widgets.explorer import Explorer

    if hasattr(source, "_explored_"):  # defined above this layer
        return source._explored_()  # type: ignore[no-any-return]
    _refuse_options(load_options, explore)
    made = exploration(source, example_args, measure=_when(measure, "when asked"), sources=sources, threads=threads, **load_options)
    shown = Explorer(made)
    kernels = () if made.decided is None else made.decided.kernels
    times = {kernel.group or kernel.nodes[0]: kernel.ms for kernel in kernels if kernel.ms is not None and kernel.nodes}
    if times:
        shown.paint(times, "ms")
    return shown


@public
def timeline(source: Any, *example_args: Any, **load_options: Any) -> Timeline:
    """Scrub through what passes did to a program, step by step, in one notebook cell.

    Takes a History, anything that has one as `.history` (such as a Fusion), or anything that `load` takes, which is
    then fused. The result's `step` reads and sets the state that is shown: 0 as loaded, -1 the last.
    """
    from irscope.widgets.explorer import Timeline

    return Timeline(_history(source, example_args, load_options))


def _history(source: Any, arguments: Sequence[Any], load_options: dict[str, Any]) -> History:
    from irscope.transforms.base import History
    from irscope.transforms.fusion import fuse

    _refuse_options(load_options, timeline)
    found = source if isinstance(source, History) else getattr(_decided(source), "history", None)
    if isinstance(found, History):
        if arguments:
            raise ArgumentError("these passes have run, and take no example arguments", hint="irs.timeline(f)")
        return found
    graph = source if isinstance(source, Graph) and not arguments else load(source, *arguments, **load_options)
    return fuse(one_graph(graph)).history


@public
def write_report(
    source: Any, *example_args: Any, output: str | Path = "report.html", measure: bool | None = None,
    sources: str | Path | None = None, answers: bool | None = None, **load_options: Any,
) -> Path:  # fmt: skip
    """Write the same views as one HTML file that needs no server, no network and no kernel; returns its path.

    A History writes the views of `timeline`, a Profile its explorer. The page has answers about each value and node for up to 50,000
    nodes, or with `answers=True` (20,000 nodes make a file of 5 MB); without them it has text, graph, tables and steps, and says so
    (2 MB then). Source lines are those that `explore` shows, with the same `sources`.
    """
    from irscope.display.html import history_html, standalone_html
    from irscope.transforms.base import History

    _refuse_options(load_options, write_report)
    path = Path(output)
    named = next((arg for arg in example_args if isinstance(arg, str | Path) and str(arg).endswith(".html")), None)
    if named is not None:
        raise ArgumentError(f"{str(named)!r} is not an example argument", hint=f"the file is named by output={str(named)!r}")
    if isinstance(source, History):
        page = history_html(source)
    else:
        made = exploration(source, example_args, measure=_when(measure, "at once"), sources=sources, **load_options)
        page = standalone_html(made, answers=answers)
    return write_file(path, page)


def _when(measure: bool | None, otherwise: _Measure) -> _Measure:
    if measure not in (None, True, False):
        raise ArgumentError(f"measure is True, False or None, not {measure!r}", hint="True measures at once, False never")
    return otherwise if measure is None else "at once" if measure else "never"


def _graph_of_pieces(classes: Dedup) -> Graph:
    """Return the graph that a view of a Dedup shows: the program's; for a module its one public graph, or else the
    graph of the largest class. Raises ArgumentError for a module without graphs."""
    from irscope.errors import IrscopeError

    if isinstance(classes.source, Graph):
        return classes.source
    try:
        graph: Graph = one_graph(classes.source)
        return graph
    except IrscopeError:
        pieces = [classes.piece(members.representative) for members in classes.classes[:1]]
        bodies = [body for piece in pieces for body in (piece.body, *(body for named in piece.named.values() for body in named))]
        found = next((body.graph for body in bodies if body.graph.position), None)
        if found is None:
            raise ArgumentError("the module holds no graph that could be shown", hint="d.table() has its classes") from None
        return found


def exploration(
    source: Any, arguments: Sequence[Any], *, measure: _Measure, sources: str | Path | None = None,
    threads: int | None = None, **load_options: Any,
) -> Exploration:  # fmt: skip
    """Return what `explore` shows of a program: fused, and measured if there are arguments and `measure` asks for
    it."""
    from functools import partial

    from irscope.compilers.record import Decisions, Program
    from irscope.report.pages import Exploration
    from irscope.runtime.measure import check_threads
    from irscope.runtime.profile import Profile
    from irscope.transforms.dedup import Dedup
    from irscope.transforms.fusion import Fusion, fuse
    from irscope.transforms.pipeline import Pipelined

    _refuse_options(load_options)
    check_threads(threads)
    if isinstance(source, tuple | list) and source and all(isinstance(each, Decisions) for each in source):
        source, arguments = source[0], (*source[1:], *arguments)
    profiled = source if isinstance(source, Profile) else None
    same = source if isinstance(source, Dedup) else None
    if same is not None and same.constants is not None:
        what = "the classes are those of constants, which the explorer does not draw"
        raise ArgumentError(what, hint="d.table() lists them; irs.explore(program) shows the program")
    if same is not None:
        source = _graph_of_pieces(same)
    if profiled is not None:
        source = profiled.measured.fusion or fuse(profiled.measured.original)
    decisions = Decisions(source.compiler, (source,)) if isinstance(source, Program) else source if isinstance(source, Decisions) else None
    chosen = 0
    beside, arguments = _others(arguments) if decisions is not None else ((), arguments)
    if decisions is not None:
        chosen = decisions.largest
        source = decisions.programs[chosen].fusion
    if isinstance(source, Pipelined):
        fusions = [result for result in source.results.values() if isinstance(result, Fusion)]
        source = fusions[-1] if fusions else source.graph
    if isinstance(source, Fusion):
        fusion = source
        if arguments and decisions is None and not load_options.get("backward"):
            _given_types(fusion.original, arguments)
    else:
        if isinstance(getattr(source, "graph", None), Graph):  # of what was made of a program: an executable, an alias db, a memory plan
            source = source.graph
        graph = source if isinstance(source, Graph) and not arguments else load(source, *arguments, **load_options)
        fusion = fuse(one_graph(graph))
    timed = None
    if arguments and measure != "never":
        if load_options.get("backward"):
            from irscope.frontends.torch.backward import unit_cotangents

            arguments = (*arguments, *load_options.get("targets", ()))
            arguments = (*arguments, *unit_cotangents(fusion.graph, arguments))
        timed = partial(compare, fusion, *arguments, threads=threads)
    comparison = timed() if timed is not None and measure == "at once" else None
    folder = None if sources is None else Path(sources)
    return Exploration(
        fusion, comparison, sources=folder, profile=profiled, measure=timed, same=same, arguments=tuple(arguments), decisions=decisions,
        chosen=chosen, beside=beside,
    )  # fmt: skip


def _others(arguments: Sequence[Any]) -> tuple[tuple[Any, ...], Sequence[Any]]:
    """Return what other compilers decided, which stands before the example arguments, and these."""
    from irscope.compilers.record import Decisions, Program

    count = next((k for k, each in enumerate(arguments) if not isinstance(each, Decisions | Program)), len(arguments))
    found = (Decisions(each.compiler, (each,)) if isinstance(each, Program) else each for each in arguments[:count])
    return tuple(found), arguments[count:]
