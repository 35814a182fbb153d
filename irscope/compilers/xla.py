"""What XLA decided: a compiled JAX function, or the text of optimized HLO of any back end, as a program with XLA's kernels.

The program is that of `irs.load`, whose values have the names of XLA's instructions, with the fusions taken apart again. An op that
several fusions compute stands in each of them in HLO; here it is one node, which several kernels compute. XLA gives no reasons.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from functools import partial
from glob import escape
from importlib import import_module
from math import prod
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

from irscope._base.words import plural
from irscope.analysis.memory_plan import OwnMemory
from irscope.codegen.kernel import Lines, SourceText
from irscope.compilers.ort import torch_model_of
from irscope.compilers.record import Certainty, Change, Decisions, Kernel, Program, likely, program_of
from irscope.compilers.xla_dump import Dump, times_of, vanished
from irscope.errors import ArgumentError, CaptureError, LoadError, MissingExtra, ParseError, PassError
from irscope.files import read_text
from irscope.frontends.hlo import Converter, graph_of_proto, graph_of_text, is_serialised, read_proto, recognizes
from irscope.frontends.hlo_text import HloText, Instruction, is_hlo_text, parse_hlo
from irscope.frontends.jax import flat_call, flattened, keeping_arguments, written_function
from irscope.frontends.refusals import start_of
from irscope.ir import CONTROL_FLOW, Block, Graph, Node, Value, make_block, make_node
from irscope.ops.registry import category_of, effect_of

compiler: Final = "xla"
name: Final = "what jax.jit(f).lower(*args).compile() gives, a function of JAX with arguments, and optimized HLO as text or dump"

_DUMPS: Final = "*after_optimizations.txt"
_SERIALISED: Final = "*after_optimizations.hlo.pb"
_MOST_DUMPS: Final = 50


def reads(source: object, compiler: str | None) -> bool:
    """Accepts compiled, lowered and jitted functions of JAX, HLO text, its files, folders of dumps; any function if XLA was asked for."""
    if isinstance(source, str):
        return is_hlo_text(source)
    if isinstance(source, Path):
        return bool(_dumps(source)) if source.is_dir() else recognizes(source, start_of(source))
    home = type(source).__module__
    is_jax = home.startswith(("jax.", "jaxlib.")) and (hasattr(source, "lower") or hasattr(source, "compile") or hasattr(source, "as_text"))
    return is_jax or (compiler == "xla" and callable(source))


def _dumps(folder: Path) -> list[Path]:
    """The dumps of optimized modules in a folder, as text where there are both."""
    return sorted(folder.glob(_DUMPS)) or sorted(folder.glob(_SERIALISED))


def decisions(source: Any, args: Sequence[Any], *, measure: bool = False, **options: Any) -> Decisions:
    """Returns what XLA decided. With `measure` a function is run, and `k.ms` is the median time of some runs, as JAX's profiler sees it.

    Raises ParseError and LoadError for a text, MissingExtra without JAX.
    """
    if torch_model_of(source) is not None:
        hint = "run it under torch_xla with XLA_FLAGS=--xla_dump_to=FOLDER, and give that folder; or give a function of JAX"
        raise LoadError("XLA takes programs of JAX and HLO, and irscope writes neither of a torch model", hint=hint)
    if measure and isinstance(source, str | Path):
        hint = "give the function and its arguments, or leave measure out"
        raise ArgumentError("a text of HLO is not run: its kernels have no times", hint=hint)
    if options:
        what = f"XLA's decisions have no option {next(iter(options))!r}"
        raise ArgumentError(what, hint="give the compiler's options to lower(…).compile(), and its result here")
    if isinstance(source, str):
        return Decisions(compiler, (_of_text(source, parse_hlo(source), None),))
    if isinstance(source, Path):
        paths = _dumps(source) if source.is_dir() else [source]
        if len(paths) > _MOST_DUMPS:
            what = f"{str(source)!r} has {len(paths)} dumps of optimized modules"
            raise LoadError(what, hint=f"give one of them, such as {paths[-1].name}")
        return Decisions(compiler, tuple(map(_of_file, paths)))
    return _of_jax(source, args, measure)


def _of_file(path: Path) -> Program:
    if not is_serialised(path):
        text = read_text(path, kind="HLO text")
        return _of_text(text, parse_hlo(text, file=str(path)), path)
    proto, text, module = read_proto(path)
    _refuse_undecided(module)
    return _program(graph_of_proto(Converter(), proto, module), module, text, Dump(path, module.name))


def _refuse_undecided(module: HloText) -> None:
    """Raises LoadError for a module that XLA has not optimized."""
    if not module.is_scheduled and not any(each.opcode == "fusion" for _, each in module.instructions()):
        what = f"{module.file or 'this text'} is HLO that XLA has not optimized: nothing is decided in it"
        raise LoadError(what, hint="irs.load reads it as a program; XLA's decisions are in *after_optimizations.txt")


def _of_text(text: str, module: HloText, path: Path | None) -> Program:
    _refuse_undecided(module)
    elided = sum(each.is_elided for _, each in module.instructions())
    notes = (f"the text leaves out the elements of {plural(elided, 'constant')}: the program refuses to run",) if elided else ()
    dump = Dump(path, module.name) if path is not None else None
    return _program(graph_of_text(text, module), module, text, dump, notes=notes)


def _of_jax(source: Any, args: Sequence[Any], measure: bool) -> Decisions:
    """Returns what XLA made of a compiled function; of any other, which is compiled for it."""
    try:
        jax = import_module("jax")
    except ImportError:
        raise MissingExtra("jax", extra="jax", purpose="to compile a function with XLA") from None
    made = source
    with TemporaryDirectory() as dump:
        try:
            if not isinstance(made, jax.stages.Compiled | jax.stages.Lowered):
                made = (source if hasattr(source, "lower") else jax.jit(source)).lower(*args)
            if isinstance(made, jax.stages.Lowered):
                made = _compiled(made, dump)
        except Exception as error:
            said = "\n".join([line for line in str(error).splitlines() if line.strip()][:6])
            what = f"JAX cannot compile {getattr(source, '__name__', type(source).__name__)}: {type(error).__name__}"
            raise CaptureError(what, where=said, hint="check that jax.jit(function)(*arguments) runs") from None
        call = keeping_arguments(made)
        programs = _timed(tuple(_programs(made, Path(dump))), call, args) if measure else tuple(_programs(made, Path(dump)))
        written = written_function(source)
        eager = None if written is None else flat_call(made, written)
        notes = (
            ("XLA's program writes to arguments that are donated: here it gets copies of them, whose time counts",)
            if call is not made
            else ()
        )
        return Decisions(
            compiler, programs, version=f"JAX {jax.__version__}", call=call, eager=eager, flattened=partial(flattened, made), notes=notes
        )  # fmt: skip


def _timed(programs: tuple[Program, ...], made: Any, args: Sequence[Any]) -> tuple[Program, ...]:
    times = times_of(made, args)

    def timed(program: Program) -> Program:
        kernels = tuple([replace(kernel, ms=times.get((program.name, kernel.name))) for kernel in program.kernels])
        silent = sum(kernel.ms is None for kernel in kernels)
        notes = (f"JAX's profiler has no times of {plural(silent, 'kernel')}",) if silent else ()
        return replace(program, kernels=kernels, notes=(*program.notes, *notes))

    return tuple(map(timed, programs))


def _compiled(lowered: Any, dump: str) -> Any:
    """Compiles with a dump, apart from the user's cache on disk: what that has is not compiled, and it needs no programs of ours."""
    config: Any = None
    with suppress(ImportError):  # a module of JAX's own, which may go
        config = import_module("jax._src.config")
    without_cache = getattr(config, "enable_compilation_cache", None)
    with without_cache(False) if without_cache is not None else nullcontext():
        try:
            return lowered.compile(compiler_options={"xla_dump_to": dump})
        except Exception:  # a back end that does not know this option says so in its own words
            return lowered.compile()


def _programs(made: Any, dump: Path) -> Iterator[Program]:
    """Yields the program of each module that a compiled function consists of."""
    import jax

    try:
        modules = made.runtime_executable().hlo_modules()
        texts = [(module.to_string(), module.as_serialized_hlo_module_proto()) for module in modules]
        run = flat_call(made)
    except Exception as error:
        what = f"JAX {jax.__version__} does not show what it compiled: {type(error).__name__}: {error}"
        raise LoadError(
            what, hint="irscope reads it with JAX 0.10.1; compiled.as_text() gives the text, which irs.decisions reads"
        ) from None
    xla, figures = Converter(), _figures(made)
    for text, proto in texts:
        module = parse_hlo(text)
        path = next(dump.glob(f"*.{escape(module.name)}.{_DUMPS}"), None)
        beside = Dump(path, module.name) if path is not None else None
        yield _program(graph_of_proto(xla, proto, module), module, text, beside, run=run, figures=figures)


def _figures(made: Any) -> Mapping[str, float]:
    """Returns what XLA says of the whole program: bytes of memory and of traffic, operations; nothing that it does not say."""
    found: dict[str, float] = {}
    try:
        memory, cost = made.memory_analysis(), made.cost_analysis()
    except Exception:  # a back end need not have them
        return found
    for key in ("argument", "output", "alias", "temp", "generated_code"):
        size = getattr(memory, f"{key}_size_in_bytes", None)
        if isinstance(size, int):
            found[f"{key.replace('_', ' ')} bytes"] = size
    for key in ("flops", "transcendentals", "bytes accessed"):
        value = cost.get(key) if isinstance(cost, Mapping) else None
        if isinstance(value, float | int):
            found[key] = value
    return found


# What of a module runs as a kernel: fusions, library calls, ops alone; and what XLA added.
#
# XLA runs each instruction outside of fusions in the order of the text. Loops and branches run the instructions of other computations;
# computations that only say how elements are combined or compared run as a part of the instruction that names them.


_FREE: Final = frozenset({
    "parameter", "constant", "tuple", "get-tuple-element", "bitcast", "after-all", "opt-barrier", "add-dependency", "domain",
    "partition-id", "replica-id", "while", "conditional", "call", "async-start", "call-start",
})  # fmt: skip
"""Ops that run nothing of their own: names of values and control flow."""
_ENDS: Final = ("-done", "-update")
"""How the ends of what began before end."""
_CONTROL: Final = frozenset({"while", "conditional", "call", "async-start", "call-start"})
"""Ops whose computations run instruction by instruction."""
_LIBRARY: Final = frozenset({"dot", "convolution", "fft", "cholesky", "triangular-solve", "custom-call"})
_TALK: Final = ("all-", "ragged-all-", "collective-", "reduce-scatter", "send", "recv", "infeed", "outfeed")
"""How ops begin that communicate with other devices or with the host."""
_MARKERS: Final = ("Sharding", "LayoutConstraint", "annotate_device_placement", "AllocateBuffer", "AssumeGatherIndicesInBound")
"""Targets of custom calls that run nothing."""
_OF_LIBRARIES: Final = (
    "__cudnn", "__cublas", "__custom_fusion", "__ynn", "__onednn", "__dot_fusion", "__nvjet", "__rocm", "__miopen", "__xnn",
)  # fmt: skip
"""How the kinds of custom fusions begin that are calls of a library; others are generated (`__triton`)."""
MOVES: Final = frozenset({
    "broadcast", "iota", "reshape", "transpose", "slice", "dynamic-slice", "gather", "pad", "concatenate", "reverse", "bitcast",
    "bitcast-convert", "constant", "copy",
})  # fmt: skip
"""Ops that compute no element: where they stand in two kernels, nothing was computed again."""
_KIND: Final = re.compile(r'"kind"\s*:\s*"([^"]*)"')


class HloKernel(NamedTuple):
    """An instruction that runs."""

    computation: str
    """The one that it runs in: the entry, or the body of a loop or branch."""
    instruction: Instruction
    kind: str
    """XLA's kinds of fusions: loop over what it stores, input over what it reads, output with a call and what follows it, custom in a
    way of its own. Then calls of a library, ops alone, and communication."""
    library: str
    """What is called: the target of a custom call, or the op."""

    @property
    def name(self) -> str:
        return self.instruction.name

    @property
    def opcode(self) -> str:
        """What runs: the `fusion` of a `fusion-start`."""
        return _begun(self.instruction)

    @property
    def is_library(self) -> bool:
        """Whether code runs that XLA did not generate."""
        return self.kind in ("library", "communication")


def kernels_of(module: HloText) -> list[HloKernel]:
    """Returns what runs, in the order of the text, the bodies of a loop after it; a computation that is called twice is there once."""
    found, todo, seen = list[HloKernel](), [module.entry], set[str]()
    while todo:
        here = todo.pop(0)
        if here in seen:
            continue
        seen.add(here)
        for each in module.computations[here]:
            if each.opcode in _CONTROL:
                todo += each.called
            made = _kernel(here, each)
            if made is not None:
                found.append(made)
    return found


def _begun(each: Instruction) -> str:
    """Returns the op that an instruction begins, for which XLA has no other word than `-start` behind its name; or the op that it is."""
    opcode = each.opcode
    return opcode.removesuffix("-start") if not opcode.startswith((*_TALK, "copy", "async")) else opcode


def _kernel(computation: str, each: Instruction) -> HloKernel | None:
    kind, library, opcode = "communication" if each.opcode.startswith(_TALK) else "alone", "", _begun(each)
    if opcode == "fusion":
        said = _KIND.search(each.attrs.get("backend_config", ""))
        library = said[1] if said is not None and said[1].startswith(_OF_LIBRARIES) else ""
        own = each.attrs.get("kind", "").removeprefix("k").lower()
        kind = "library" if library else own if own in ("loop", "input", "output") else "custom"
    elif opcode == "custom-call":
        kind, library = "library", each.attrs.get("custom_call_target", "").strip('"')
    elif opcode in _LIBRARY:
        kind, library = "library", opcode
    is_free = each.opcode in _FREE or each.opcode.endswith(_ENDS) or (opcode == "custom-call" and library in _MARKERS)
    return None if is_free else HloKernel(computation, each, kind, library)


def why_added(module: HloText, each: Instruction) -> str:
    """Returns why an instruction is XLA's own copy or cast; nothing for any other.

    A copy is XLA's in any case: StableHLO has none. A cast of JAX is named as one.
    """
    if each.opcode in ("copy", "copy-start"):
        return "no op of StableHLO copies a tensor"
    made_from = module.provenance(each).op_name.rpartition("/")[2]
    if each.opcode != "convert" or "convert" in made_from or "astype" in made_from:
        return ""
    return f"it was made for {made_from}, by XLA or by JAX's lowering of that" if made_from else "no op of the source is behind it"


# The bytes that a kernel reads and writes, counted as XLA's own cost analysis counts them.
#
# Of an operand that is only sliced those are the slices; of one that is updated in place, and of the result, those of the update.


_BITS: Final = re.compile(r"[a-z]+(\d+)")
_SHAPE: Final = re.compile(r"(\w+)\[([\d,<=]*)\]")
_WORKSPACE: Final = re.compile(r", [su]8\[\d+\](?:\{[^{}]*\})?\)$")
"""The memory that a call of one of NVIDIA's libraries works in, its last result."""
_MARKS: Final = re.compile(r"(?:, [su]32\[\](?:\{[^{}]*\})?)+\)$")
"""The marks by which what began is waited for, the last results of an op that begins something."""
_SLICES: Final = frozenset({"dynamic-slice", "slice", "gather"})


def size_in_bytes(shape: str) -> int | None:
    """Returns the bytes of a result; None for a type of unknown size.

    >>> size_in_bytes("f32[2,3]{1,0}"), size_in_bytes("(bf16[4]{0}, pred[])"), size_in_bytes("opaque[]")
    (24, 9, None)
    """
    total = 0
    for kind, extents in _SHAPE.findall(re.sub(r"\{[^{}]*\}", "", shape)):
        bits = _BITS.match(kind)
        if kind == "token":
            continue
        if bits is None and kind != "pred":
            return None
        count = prod(int(extent.strip("<=")) for extent in extents.split(",") if extent)
        total += -(-count * (8 if kind == "pred" else int(bits[1]) if bits is not None else 0) // 8)
    return total


_ONE: Final = re.compile(r"\[(1,?)*\]")
"""The extents of a constant of one element, which is part of a kernel's code."""


def bytes_moved(module: HloText, kernel: HloKernel, around: Mapping[str, Instruction]) -> int | None:
    """Returns the bytes that a kernel reads and writes; None where that is not known. `around` are the instructions of its computation."""
    each = kernel.instruction
    sizes = [size_in_bytes(around[operand].shape) for operand in each.operands]
    shape = _MARKS.sub(")", each.shape) if each.opcode.endswith("-start") else each.shape
    result, opcode = size_in_bytes(_WORKSPACE.sub(")", shape) if kernel.library.startswith("__cu") else shape), kernel.opcode
    if each.opcode == "copy-start":  # its result has the operand, too
        result = sizes[0]
    elif each.opcode.endswith("-start") and each.opcode != "all-reduce-start" and shape.startswith("("):  # operands and results
        if opcode == each.opcode:
            return result
        result = None if result is None or None in sizes else result - sum(size or 0 for size in sizes)
    if opcode == "fusion" and len(each.called) == 1:
        inside = module.computations[each.called[0]]
        params = sorted((i for i in inside if i.opcode == "parameter"), key=lambda i: int(i.attrs["value"] or 0))
        sizes = [_read(inside, param, size) for param, size in zip(params, sizes, strict=False)]
        sizes += [size_in_bytes(i.shape) for i in inside if i.opcode == "constant" and not _ONE.search(i.shape)]  # weights, not operands
        result = _stored(inside, next(i for i in inside if i.is_root))
    elif opcode in _SLICES:
        sizes[0] = result
    elif opcode == "dynamic-update-slice":
        sizes[0], result = 0, sizes[1]
    return None if result is None or None in sizes else result + sum(size or 0 for size in sizes)


def _read(inside: Sequence[Instruction], param: Instruction, size: int | None) -> int | None:
    """Returns how much a fusion reads of one of its parameters."""
    users = [each for each in inside if param.name in each.operands]
    of_parts = [each for each in users if each.opcode in (*_SLICES, "dynamic-update-slice")]  # which do nothing else with it
    of_parts = [each for each in of_parts if each.operands[0] == param.name and each.operands.count(param.name) == 1]
    seen = [size_in_bytes(each.shape) if each.opcode in _SLICES else 0 for each in of_parts]
    if size is None or not users or len(seen) < len(users) or None in seen:
        return size
    return min(size, sum(part or 0 for part in seen))


def _stored(inside: Sequence[Instruction], root: Instruction) -> int | None:
    """Returns how much a fusion writes."""
    by_name = {each.name: each for each in inside}
    if root.opcode == "tuple":
        parts = [_stored(inside, by_name[operand]) for operand in root.operands]
        return None if None in parts else sum(part or 0 for part in parts)
    while root.opcode == "bitcast":
        root = by_name[root.operands[0]]
    return size_in_bytes(by_name[root.operands[1]].shape if root.opcode == "dynamic-update-slice" else root.shape)


# The kernels of a module over the nodes of its program.


def _program(
    grouped: Graph, module: HloText, text: str, dump: Dump | None, *, notes: Sequence[str] = (), **facts: Any
) -> Program:  # fmt: skip
    flat = _Flat(grouped)
    known = kernels_of(module)
    sites = _sites(flat, known, module)
    named = {where: {each.name: each for each in inside} for where, inside in module.computations.items()}
    made = [
        Kernel(
            each.name, nodes, each.is_library, kind=each.kind, function=each.library, stores=stored,
            bytes=bytes_moved(module, each, named[each.computation]),
        )
        for each, nodes, stored in sites
    ]  # fmt: skip
    gone, said = _vanished(dump, module, flat) if dump is not None else ((), ())
    changes, notes = (*_added(flat, module), *gone), (*notes, *said)
    unlined = sum(not module.provenance(each.instruction).frames for each in known)
    if unlined:
        notes = (*notes, f"XLA names no line for {plural(unlined, 'kernel')}")
    memory = _memory(dump, flat) if dump is not None else None
    facts |= {"compiler": compiler, "name": module.name, "silence": "gives no reasons", "changes": changes, "memory": memory}
    try:
        program = program_of(flat.graph, made, notes=tuple(notes), **facts)
    except PassError:  # an op that irscope does not know may write to what a view shares memory with
        program = likely(flat.graph, [_without_views(flat.graph, kernel) for kernel in made], notes=notes, **facts)
    lines = text.split("\n")
    moving = {each.name for _, each in module.instructions() if each.opcode in MOVES}
    kernels = []
    for kernel, (hlo, _, _) in zip(program.kernels, sites, strict=True):
        again = tuple([each for each in kernel.recomputed if each.node.outputs[0].name not in moving])
        kernels.append(replace(kernel, source=_source(kernel, hlo, module, lines, dump), recomputed=again))
    return replace(program, kernels=tuple(kernels))


def _vanished(dump: Dump, module: HloText, flat: "_Flat") -> tuple[tuple[Change, ...], tuple[str, ...]]:
    """Returns what XLA's rewrites took out, and a note where its text of the program before them cannot be read."""
    try:
        before = dump.before()
        return tuple(vanished(parse_hlo(before), module, flat.named)) if before else (), ()
    except (ParseError, LoadError) as error:
        return (), (f"what vanished is not known, since the program before XLA's rewrites cannot be read: {error.what}",)


def _without_views(graph: Graph, kernel: Kernel) -> Kernel:
    """The kernel without the views with which it begins, where others read them: these compute nothing, and can stand before it."""
    left = set(kernel.nodes)
    for node in kernel.nodes:
        makers = (graph.producer.get(value) for value in node.inputs)
        used = {use.user for value in node.outputs for use in graph.users.get(value, ())}
        is_view = effect_of(node) == "view" and node not in (kernel.stores or ())
        if is_view and left.isdisjoint(each for each in makers if each is not None) and not used <= left:
            left.remove(node)
    return replace(kernel, nodes=tuple([node for node in kernel.nodes if node in left]))


def _memory(dump: Dump, flat: "_Flat") -> OwnMemory | None:
    """Returns what XLA says of its buffers, each with the nodes whose results it holds."""
    found = dump.memory()
    if found is None:
        return None
    held = [(each, flat.named.get(each.name.partition("{")[0], ())) for each in found.allocations]
    return replace(found, allocations=tuple([replace(each, nodes=tuple(nodes[-1:])) for each, nodes in held]))


Site = tuple[HloKernel, tuple[Node, ...], frozenset[Node]]
"""A kernel, where it stands in the program, and the nodes whose results it stores."""


def _sites(flat: "_Flat", known: Sequence[HloKernel], module: HloText) -> list[Site]:
    """Returns the kernels in the order in which they run; one whose computation is called twice is there twice, but for the tests of
    loops: the program has each before the loop and at the end of its body."""
    loops = (each for _, each in module.instructions() if each.opcode == "while")
    conditions = {each.attrs.get("condition", "").removeprefix("%") for each in loops}
    by_name = {key: kernel for kernel in known for key in (kernel.name, f"{kernel.computation}.{kernel.name}")}
    for _, each in module.instructions():  # what begins an op is the node of it
        inside = [kernel for kernel in known if kernel.computation in each.called] if each.opcode == "async-start" else []
        by_name |= dict.fromkeys([each.name], inside[0]) if len(inside) == 1 else {}
    found = list[Site]()
    for label, nodes, stored, is_group in flat.sites:
        kernel = by_name.get(label)
        if kernel is not None and is_group == (kernel.opcode == "fusion"):
            found.append((kernel, nodes, stored))
    there = {id(kernel) for kernel, _, _ in found}
    last = {id(kernel): place for place, (kernel, _, _) in enumerate(found)}
    found = [site for place, site in enumerate(found) if site[0].computation not in conditions or last[id(site[0])] == place]
    return [*found, *((kernel, (), frozenset()) for kernel in known if id(kernel) not in there)]


def _added(flat: "_Flat", module: HloText) -> Iterator[Change]:
    for computation, each in module.instructions():
        because = why_added(module, each)
        nodes = flat.named.get(each.name) or flat.named.get(f"{computation}.{each.name}")
        if because and nodes:
            sure: Certainty = "exact" if each.opcode.startswith("copy") else "guessed"
            yield Change("added", each.opcode, each.name, tuple(dict.fromkeys(nodes)), because, nodes[0].location, nodes[0].scope, sure)


_METADATA: Final = re.compile(r", metadata=\{(?:[^{}\"]|\"(?:[^\"\\]|\\.)*\")*\}")
"""What says where an instruction comes from."""


def _source(
    kernel: Kernel, hlo: HloKernel, module: HloText, lines: Sequence[str], dump: Dump | None
) -> SourceText:  # fmt: skip
    """Returns the text that XLA generated for a kernel, or else its HLO, whose lines know their nodes."""
    found = dump.code(hlo.name) if dump is not None else None
    made = Lines()
    if found is not None:
        for line in found[0].removesuffix("\n").split("\n"):
            made.add(line)
        return made.source(hlo.name, found[1])
    inside = kernel.group.blocks[0].nodes if kernel.group is not None else kernel.nodes
    place = {value.name: position for position, node in enumerate(inside) for value in node.outputs}
    computations = hlo.instruction.called if hlo.opcode == "fusion" else ()
    for each in [each for called in computations for each in module.computations[called]] or [hlo.instruction]:
        node, line = place.get(each.name), _METADATA.sub("", lines[each.line - 1]).strip()
        made.add(line, node=node) if node is not None else made.add(line)
    return made.source(hlo.name, "hlo")


# The program without groups, in which what several fusions compute is one node.


class _Flat:
    """A graph whose groups were taken apart.

    Two nodes of one block are one here if they are the same op of the same operands and have no effect. A copy is none of these:
    XLA makes each for a reason of its own.
    """

    def __init__(self, grouped: Graph) -> None:
        self.sites: list[tuple[str, tuple[Node, ...], frozenset[Node], bool]] = []
        """The instruction of each group, and of what is outside of groups, in program order: its name, its nodes, those that it stores, and
        whether it is a group."""
        self._open: tuple[str, Block | None] = "", None
        """The instruction and the block of the last site, if that may go on."""
        self.named: dict[str, list[Node]] = {}
        """The nodes that each instruction became."""
        self._is_kept = False
        """Whether the current block belongs to an op that is kept with its regions, and is a part of that."""
        self._values: dict[Value, Value] = {}
        self._maker: dict[Value, Node] = {}
        self.graph = replace(grouped, body=self._block(grouped.body))

    def _block(self, block: Block) -> Block:
        nodes: list[Node] = []
        known: dict[object, Node] = {}
        for node in block.nodes:
            if node.op == "prim::FusionGroup":
                inside = node.blocks[0]
                self._values.update(zip(inside.params, map(self._now, node.inputs), strict=True))
                members = [self._added(each, nodes, known) for each in inside.nodes]
                returned = [self._now(value) for value in inside.returns]
                self._values.update(zip(node.outputs, returned, strict=True))
                stored = frozenset(self._maker[value] for value in returned if value in self._maker)
                self._site(node.outputs[0].name, members, stored, None)
            elif node.op != "prim::Constant" and node.op not in CONTROL_FLOW:
                made = self._added(node, nodes, known)
                self._site(node.outputs[0].name if node.outputs else "", [made], frozenset([made]), block)
            else:
                self._added(node, nodes, known)
        return make_block(block.id, block.params, tuple(nodes), tuple(map(self._now, block.returns)))

    def _site(self, label: str, members: Sequence[Node], stored: frozenset[Node], block: Block | None) -> None:
        """Notes where a kernel stands; nodes that one instruction became follow one another in one block."""
        if self._is_kept:
            return
        nodes = tuple(dict.fromkeys(node for node in members if node.op != "prim::Constant"))
        if block is not None and self._open == (label, block):
            _, before, kept, _ = self.sites.pop()
            nodes, stored = tuple(dict.fromkeys((*before, *nodes))), kept | stored
        self._open = label, block
        self.sites.append((label, nodes, stored & frozenset(nodes), block is None))

    def _now(self, value: Value) -> Value:
        return self._values.get(value, value)

    def _added(self, node: Node, nodes: list[Node], known: dict[object, Node]) -> Node:
        """Returns the node in this block: one that is there, or the node itself with the operands that are there."""
        inputs = tuple(map(self._now, node.inputs))
        is_pure = effect_of(node) in ("pure", "view") and category_of(node) != "random"
        may_be_one = not node.blocks and node.op != "aten::clone" and (node.op == "prim::Constant" or is_pure)
        key = (node.op, inputs, node.attrs, tuple(value.type for value in node.outputs)) if may_be_one else None
        other = known.get(key) if key is not None else None
        if other is not None:
            self._values.update(zip(node.outputs, other.outputs, strict=True))
            return self._noted(node, other)
        outside, self._is_kept = self._is_kept, self._is_kept or node.op not in CONTROL_FLOW
        blocks = tuple(map(self._block, node.blocks))
        self._is_kept = outside
        made = make_node(node.id, node.op, inputs, node.outputs, node.attrs, blocks, node.location, node.scope)
        self._maker.update(dict.fromkeys(made.outputs, made))
        nodes.append(made)
        if key is not None:
            known[key] = made
        return self._noted(node, made)

    def _noted(self, node: Node, made: Node) -> Node:
        for label in dict.fromkeys(value.name for value in node.outputs if node.op != "prim::Constant"):
            self.named.setdefault(label, []).append(made)
        return made
