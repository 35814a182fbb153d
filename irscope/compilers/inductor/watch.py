"""What is watched of Inductor while it compiles: the nodes of its scheduler, the texts of its kernels, and its reasons.

`Scheduler.codegen`, when fusion is done: `nodes` are the loop nests and library calls in the order in which they run. `define_kernel` of
the C++ and Triton back ends: which of them one function holds, and its text. `WhyNoFuse`, each reason as objects, before it is a line of
a log; `can_fuse` and `will_fusion_create_cycle`, the pairs that were tried. These are internals: where one is missing, or has changed so
that nothing is seen, an error says so, with torch's version.
"""

import re
import threading
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from math import prod
from types import ModuleType
from typing import Any, Final
from unittest import mock

import numpy as np

from irscope.compilers.inductor.dynamo import Rewrites, SeenOp, ops_of
from irscope.compilers.inductor.output_code import bare_line
from irscope.compilers.inductor.program import SeenGraph, SeenNode
from irscope.errors import CaptureError
from irscope.frontends.torch.types import require_torch
from irscope.ops.view_steps import ByteSet, byte_set, bytes_covered

_PURPOSE: Final = "to ask Inductor"


class Watch:
    """Patches Inductor for the time of one compilation, and collects what it sees."""

    def __init__(self, step: Callable[[], object], kept: list[tuple[Any, Any]], copies: set[int], learns: bool) -> None:
        self.step = step
        self.learns = learns
        """Whether gradients are asked for: then the first rewrites are those of a graph that is cut into two later."""
        self.kept = kept
        """Tensors that are to get their contents back, each with a copy."""
        self.copies = copies
        """The ids of the copies of the user's arguments, which may keep what is written to them."""
        self.graphs: list[SeenGraph] = []
        self.refused = ""
        """Why irscope does not read what was compiled."""
        self.problem = ""
        """What was not as it is in the versions that irscope knows."""
        self.texts: dict[str, tuple[str, str]] = {}
        self.pairs: dict[tuple[str, str], str] = {}
        self.defined: dict[str, tuple[str, frozenset[str]]] = {}
        """For each computation, the function that holds it, and the computations that were defined with it."""
        self.written = LineWatch()
        self.names: dict[int, str] = {}
        """What the user calls the tensors that the next graph is compiled for, by identity."""
        self.before: list[SeenOp] = []
        """The ops of a graph before the first rewrites that it went through."""

    def patches(self, stack: ExitStack) -> None:
        """Raises CaptureError if something that is watched is missing."""
        scheduler = inductor_module("scheduler")
        for owner, attribute, made in (
            (scheduler.Scheduler, "codegen", self._codegen),
            (scheduler.Scheduler, "can_fuse", self._can_fuse),
            (scheduler.Scheduler, "will_fusion_create_cycle", self._cycle),
            (scheduler.WhyNoFuse, "__call__", self._why),
            (inductor_module("codegen.cpp").CppScheduling, "define_kernel", partial(self._define, "c++")),
            (inductor_module("codegen.triton").TritonScheduling, "define_kernel", partial(self._define, "triton")),
        ):
            old = getattr(owner, attribute, None)
            if old is None:
                raise internals_changed(str(require_torch(_PURPOSE).__version__), f"there is no {owner.__name__}.{attribute}")
            stack.enter_context(mock.patch.object(owner, attribute, _here(partial(made, old), old)))
        lowering = inductor_module("graph").GraphLowering
        if hasattr(lowering, "save_output_code"):
            stack.enter_context(mock.patch.object(lowering, "save_output_code", _here(self._output, lambda text: None)))
        compile_fx = inductor_module("compile_fx")
        if hasattr(compile_fx, "_recursive_joint_graph_passes") and not self.learns:
            old = compile_fx._recursive_joint_graph_passes
            stack.enter_context(mock.patch.object(compile_fx, "_recursive_joint_graph_passes", _here(partial(self._rewrites, old), old)))
        for owner, attribute, made in self.written.patches():
            if (old := getattr(owner, attribute, None)) is not None:  # without it, lines of texts have no nodes
                stack.enter_context(mock.patch.object(owner, attribute, _here(partial(made, old), old)))
        machine_code, cache = inductor_module("async_compile").AsyncCompile, inductor_module("codecache").PyCodeCache
        hashes = require_torch(_PURPOSE).utils._triton
        for owner, attribute, instead in (
            (machine_code, "cpp", _no_machine_code), (machine_code, "cpp_pybinding", _no_machine_code),
            (machine_code, "triton", _no_machine_code), (cache, "load_by_key_path", _no_module), (hashes, "triton_hash_with_backend", str),
        ):  # fmt: skip
            if hasattr(owner, attribute):
                stack.enter_context(mock.patch.object(owner, attribute, _here(instead, getattr(owner, attribute))))

    def _output(self, text: str) -> None:
        """Takes the code that Inductor generated around the kernels of the last graph."""
        if self.graphs:
            self.graphs[-1].output = text

    def _rewrites(self, old: Callable[..., Any], module: Any, *rest: Any, **named: Any) -> Any:
        self.before = self.before or ops_of(module)
        return old(module, *rest, **named)

    def _codegen(self, old: Callable[..., Any], scheduler: Any) -> Any:
        graph = inductor_module("virtualized").V.graph
        seen = SeenGraph(graph.module)
        try:
            _take_nodes(scheduler.nodes, seen)
        except (AttributeError, KeyError, IndexError, TypeError) as error:  # raised here, torch would tell of it in its own words
            self.problem = self.problem or f"{type(error).__name__}: {error}"
        seen.pairs, self.pairs = self.pairs, {}
        self.step()
        self.written.lines = seen.lines
        made = old(scheduler)
        seen.removed = frozenset(graph.removed_buffers)
        results = next(node for node in graph.module.graph.nodes if node.op == "output").args[0]
        pairs = zip(graph.graph_outputs, results, strict=False)
        seen.returned = {ir.get_name(): fx for ir, fx in pairs if hasattr(fx, "meta") and hasattr(fx.meta.get("val"), "shape")}
        seen.written = [index for index, each in enumerate(graph.graph_inputs) if each in graph.mutated_inputs]
        for node in seen.nodes:
            found = (self.defined[part] for part, *_ in node.parts if part in self.defined)
            node.function, node.together = next(found, ("", frozenset()))
        seen.texts, self.texts = self.texts, {}
        self.defined.clear()
        self.graphs.append(seen)
        self.step()
        return made

    def _define(
        self, language: str, old: Callable[..., Any], backend: Any, text: str, nodes: Sequence[Any], *rest: Any, **named: Any
    ) -> Any:  # fmt: skip
        made = old(backend, text, nodes, *rest, **named)
        shown = re.sub(r"(?:Placeholder\.)?(?:KERNEL|DESCRIPTIVE)_NAME", made, text)
        self.texts[made] = language, shown.replace("#pragma CMT", "//")
        parts = [part.get_name() for node in nodes if hasattr(node, "get_nodes") for part in node.get_nodes()]
        self.defined.update(dict.fromkeys(parts, (made, frozenset(parts))))
        self.step()
        return made

    def _can_fuse(self, old: Callable[..., Any], scheduler: Any, one: Any, other: Any, *rest: Any, **named: Any) -> Any:
        self.pairs.setdefault((one.get_name(), other.get_name()), "")
        return old(scheduler, one, other, *rest, **named)

    def _cycle(self, old: Callable[..., Any], scheduler: Any, one: Any, other: Any, *rest: Any, **named: Any) -> Any:
        found = old(scheduler, one, other, *rest, **named)
        if found:
            self.pairs[one.get_name(), other.get_name()] = "fusing them would create a cycle"
        return found

    def _why(self, old: Callable[..., Any], reason: Any, said: str, *given: Any) -> Any:
        one, other = (reason.node1.get_name(), reason.node2.get_name()) if hasattr(reason, "node1") else (reason.name1, reason.name2)
        self.pairs[one, other] = said % given if given else said  # the nodes are those of torch 2.6
        return old(reason, said, *given)

    def inner(self, module: Any, examples: Sequence[Any], **named: Any) -> Any:
        """Inductor's compilation of one graph, called by AOTAutograd."""
        calls = [node for node in module.graph.nodes if node.op == "call_function"]
        before, self.before = self.before or ops_of(module), []
        count = len(self.graphs)
        inductor_module("compile_fx").compile_fx_inner(module, examples, **named)
        self.step()
        new = self.graphs[count:]
        inside = next((node for node in calls if isinstance(node.target, require_torch(_PURPOSE)._ops.HigherOrderOperator)), None)
        if inside is not None and inside.target.__name__.startswith("flex_attention"):
            why = "whose score and mask functions Inductor writes into a template, and irscope has no op for that"
            self.refused = self.refused or f"%{inside.name} is a kernel, {why}: write it as scaled_dot_product_attention"
        elif len(new) > 1 and inside is not None:
            self.refused = self.refused or f"%{inside.name} runs graphs of its own, which Inductor schedules apart"
        elif len(new) != 1 and calls:
            self.problem = self.problem or f"the scheduler made code for {len(new)} graphs where one was compiled"
        seen = new[0] if new else SeenGraph(module)
        seen.names = self.names
        seen.is_backward = bool(named.get("is_backward"))
        seen.compile_id = str(require_torch(_PURPOSE)._guards.CompileContext.current_compile_id())
        seen.rewrites = Rewrites(before, seen.module)
        _take_apart(seen)

        def run(inputs: list[Any]) -> Any:
            """Runs the graph op by op: its kernels have a text, and no machine code."""
            if not seen.inputs:
                seen.inputs = list(inputs)
                known = {id(tensor) for tensor, _ in self.kept} | self.copies
                written = [inputs[index] for index in seen.written if id(inputs[index]) not in known]
                self.kept += [(tensor, tensor.detach().clone()) for tensor in written]
            torch = require_torch(_PURPOSE)
            with torch.utils._python_dispatch._disable_current_modes():  # kernels do not go through them
                return list(torch.fx.Interpreter(seen.module).run(*inputs))

        run._boxed_call = True  # type: ignore[attr-defined]
        return run


class LineWatch:
    """Which op of the program each line of generated text is written for, where that can be followed.

    The body of a loop is made by closures, one for each op in it, which call those of their operands, and Inductor forgets whose they were.
    So the op whose closure runs is on a stack while a body is traced; an op of the body remembers the top, and so does a line that is
    written while code is made for that. Nothing that Inductor decides or writes becomes another by it.
    """

    def __init__(self) -> None:
        self.lines: dict[str, set[tuple[str, tuple[Any, ...]]]] = {}
        """For each line, as `bare_line` has it, the buffers and origins that it was written for."""
        self._virtual = inductor_module("virtualized").V
        self._buffer: Any = None
        self._stack: list[tuple[Any, ...]] = []
        self._of: dict[Any, tuple[Any, tuple[Any, ...]]] = {}
        """The buffer, and the origins of the op, of each op in a loop's body."""

    def patches(self) -> Iterator[tuple[Any, str, Callable[..., Any]]]:
        ir = inductor_module("ir")
        yield ir.Pointwise, "make_loader", self._make_loader
        yield ir.ComputedBuffer, "get_store_function", self._get_store_function
        yield getattr(inductor_module("loop_body"), "LightTracer", None), "create_node", self._create_node
        yield inductor_module("utils").IndentedBuffer, "writeline", self._writeline

    def _make_loader(self, old: Callable[..., Any], loops: Any) -> Any:
        return self._within(old(loops), tuple(loops.origins))

    def _get_store_function(self, old: Callable[..., Any], buffer: Any) -> Any:
        return self._within(old(buffer), tuple(buffer.origins), buffer)

    def _within(self, function: Callable[..., Any], origins: tuple[Any, ...], buffer: Any = None) -> Callable[..., Any]:
        def run(*given: Any, **named: Any) -> Any:
            self._buffer = self._buffer if buffer is None else buffer
            self._stack.append(origins)
            try:
                return function(*given, **named)
            finally:
                self._stack.pop()

        return run

    def _create_node(self, old: Callable[..., Any], tracer: Any, *given: Any, **named: Any) -> Any:
        made, known = old(tracer, *given, **named), self._current()
        if known is not None or (self._stack and self._buffer is not None):
            self._of[made] = known or (self._buffer, self._stack[-1])
        return made

    def _writeline(self, old: Callable[..., Any], text: Any, line: Any) -> Any:
        known = self._current()
        if known is not None:
            buffer, origins = known  # it may have had no name when its body was traced
            self.lines.setdefault(bare_line(str(getattr(line, "line", line))), set()).add((str(buffer.name), origins))
        return old(text, line)

    def _current(self) -> tuple[Any, tuple[Any, ...]] | None:
        """What is known of the op of a body that Inductor goes through now."""
        return self._of.get(getattr(self._virtual.interpreter, "current_node", None))


def _here(made: Callable[..., Any], old: Callable[..., Any]) -> Callable[..., Any]:
    """The function that was made for this thread, and the old one for all others."""
    here = threading.get_ident()

    def call(*given: Any, **named: Any) -> Any:
        return (made if threading.get_ident() == here else old)(*given, **named)

    return call


def _no_machine_code(*_: Any, **__: Any) -> Any:
    """In place of a kernel that would be compiled: its text is all that is asked for, and takes milliseconds instead of seconds."""


def _no_module(_: str, path: str, *__: Any, **___: Any) -> Any:
    """In place of the module of output code, which is not run. So its imports need not be there: Triton's texts need no Triton."""
    made = ModuleType("output_code")
    made.__file__, made.call = path, _no_machine_code  # type: ignore[attr-defined]
    return made


def inductor_module(module: str) -> Any:
    """A module of Inductor. Raises CaptureError if this torch has none of that name."""
    torch = require_torch(_PURPOSE)
    from importlib import import_module

    try:
        return import_module(f"torch._inductor.{module}")
    except ImportError as error:
        raise internals_changed(str(torch.__version__), f"there is no torch._inductor.{module} ({error})") from None


def _take_nodes(nodes: Sequence[Any], seen: SeenGraph) -> None:
    """Records the scheduler's nodes: a Nop runs nothing, and a MultiOutput names one result of the library call before it."""
    scheduler = inductor_module("scheduler")
    for node in nodes:
        parts = [(part.get_name(), sorted(part.get_buffer_names()), part.node) for part in node.get_nodes()]
        kind = type(parts[0][2]).__name__
        if kind == "MultiOutput":
            seen.results.update((buffer, ir) for _, buffers, ir in parts for buffer in buffers)
            continue
        if isinstance(node, scheduler.NopKernelSchedulerNode) or kind in ("DynamicScalar", "AssertScalar"):
            seen.joins += [ir for _, _, ir in parts if kind == "ConcatKernel"]
            continue
        seen.nodes.append(SeenNode(node.get_name(), bool(node.is_extern()), parts, *_touched(node.get_nodes())))


def _touched(parts: Sequence[Any]) -> tuple[set[str], int | None]:
    """The buffers that a kernel reads, and the bytes that its loops touch of these and of those that it writes for others, each byte once;
    None where extents are symbols. Of what it writes in place, a dependence on all is there for the order alone."""
    reads, writes = dict[str, list[Any]](), dict[str, list[Any]]()
    mine, first = {part.get_name() for part in parts}, parts[0].scheduler.mutation_real_name
    for part in parts:
        results = part.get_outputs()
        kept = {each.get_name() for each in results if any(not use.is_weak and use.get_name() not in mine for use in each.users)}
        targets = [name for each in results for name in each.get_mutations()]
        written = {first.get(target, target) for target in targets if not part.is_extern()}
        for dep in part.read_writes.reads:
            is_order = type(dep).__name__ == "StarDep" and first.get(dep.name, dep.name) in written
            if type(dep).__name__ != "WeakDep":
                reads.setdefault(dep.name, []).extend(() if is_order else [(dep, part)])
        for dep in (each for each in part.read_writes.writes if each.name in kept):
            writes.setdefault(dep.name, []).append((dep, part))
            for target in written if getattr(dep, "mode", None) else ():  # an atomic sum
                reads.setdefault(target, []).append((dep, part))
    made = {buffer for part in parts for buffer in part.get_buffer_names()}
    outside = [(name, places) for name, places in reads.items() if name not in made]
    moved = [_bytes(first.get(name, name), places) for name, places in (*outside, *writes.items())]
    return set(reads), None if None in moved else sum(each or 0 for each in moved)


def _bytes(name: str, touched: Sequence[tuple[Any, Any]]) -> int | None:
    """The bytes of a buffer that are touched, by the loops and the index of each load or store: at most, where a mask leaves some out, or
    a value decides which."""
    buffer = inductor_module("virtualized").V.graph.get_buffer(name)
    try:
        item = int(buffer.get_dtype().itemsize)
        most: int = item * min(int(buffer.get_numel()), int(buffer.get_layout().storage_size()))
    except Exception:  # several results under one name, and symbols
        return None
    if not all(hasattr(dep, "var_names") for dep, _ in touched):
        return most
    try:
        linear = [places for dep, _ in touched if (places := _places(dep, item)) is not None]
        covered = bytes_covered(linear) if len(linear) == len(touched) else None
        return min(item * _elements(touched) if covered is None else covered, most)
    except AttributeError:  # what Inductor calls otherwise now
        raise
    except Exception:  # symbols, and functions in an index that NumPy does not have
        return None


def _places(dep: Any, item: int) -> ByteSet | None:
    """The bytes of a buffer that a load or store touches; None where its index is not linear."""
    steps = [dep.index.coeff(each) for each in dep.var_names]
    start = dep.index - sum(each * step for each, step in zip(dep.var_names, steps, strict=True))
    if not all(each.is_Integer for each in (start, *steps)):
        return None
    return byte_set(int(start) * item, item, map(int, dep.size), [int(step) * item for step in steps])


_INDEX_WORDS: Final = {"FloorDiv": np.floor_divide, "ModularIndexing": lambda index, by, size: index // by % size}
_MOST_POINTS: Final = 1 << 20
"""The points of loops up to which the places of an index that is not linear are counted."""


def _elements(touched: Sequence[tuple[Any, Any]]) -> int:
    """How many elements of a buffer loads and stores touch at most. Loops that look up by the same whole numbers look up the same."""
    dtype_of, lambdify = inductor_module("virtualized").V.graph.get_dtype, inductor_module("utils").sympy.lambdify
    looked_up, uncounted, found = dict[Any, int](), 0, [np.zeros(0, int)]
    for dep, part in touched:
        if dep.is_indirect():
            is_only = all(other is dep or where is not part for other, where in touched)
            index = dep.index.subs(dict.fromkeys(dep.index.free_symbols - {*dep.var_names}, 1)) if is_only else dep.index
            by = frozenset(read.name for read in part.read_writes.reads if not dtype_of(read.name).is_floating_point)
            looked_up[index, dep.size, by] = prod(int(extent) for sizes in part.get_ranges() for extent in sizes)
        elif (points := prod(map(int, dep.size))) > _MOST_POINTS:
            uncounted += points
        else:
            index = lambdify(dep.var_names, dep.index, [_INDEX_WORDS, "numpy"])
            loops = np.meshgrid(*(np.arange(int(extent)) for extent in dep.size), indexing="ij", sparse=True)
            found.append(np.unique(index(*loops)))
    return sum(looked_up.values()) + uncounted + len(np.unique(np.concatenate(found)))


def internals_changed(version: str, what: str) -> CaptureError:
    """The error for a torch whose internals are not those that are watched."""
    return CaptureError(
        f"torch {version} does not let irscope see what Inductor decides: {what}",
        hint="irscope reads internals of Inductor as they are in torch 2.13: use that, or report this",
    )


def _take_apart(seen: SeenGraph) -> None:
    """Puts ops on tensors in place of each op on lists of tensors that Inductor computes one by one, as a kernel computes some of them,
    and in place of what cannot run by itself."""
    torch = require_torch(_PURPOSE)
    one_by_one: Container[Any] = getattr(inductor_module("lowering"), "foreach_ops", ())
    graph = seen.module.graph
    for node in list(graph.nodes):
        if node.target in one_by_one and hasattr(node.target, "_schema"):
            made = _one_by_one(torch, node)
            for user in list(node.users):  # each takes one of the results
                seen.pieces[user] = [made[user.args[1]]]
                user.replace_all_uses_with(made[user.args[1]])
                graph.erase_node(user)
        elif (write := _WRITTEN_OUT.get(getattr(node.target, "__name__", ""))) is not None:
            made = write(torch.ops.aten, node)
            node.replace_all_uses_with(made[-1])
        else:
            continue
        graph.erase_node(node)
        seen.pieces[node] = made
    seen.returned = {buffer: seen.pieces.get(fx, [fx])[0] for buffer, fx in seen.returned.items()}


def _one_by_one(torch: Any, node: Any) -> list[Any]:
    """The ops on tensors of an op on lists, before it."""
    op = node.target._schema.name.partition("_foreach_")[2]
    names = [argument.name for argument in node.target._schema.arguments]
    given = {**dict(zip(names, node.args, strict=False)), **node.kwargs}
    made = []
    for index in range(max(len(each) for each in given.values() if isinstance(each, list | tuple))):
        mine = {name: each[index] if isinstance(each, list | tuple) else each for name, each in given.items()}
        named = {name: mine.pop(name) for name in ("alpha", "value") if name in mine}
        bound = {"maximum": "clamp_min", "minimum": "clamp_max"}.get(op, op) if "scalar" in mine else op
        known = torch.fx.map_arg((tuple(mine.values()), named), lambda each: each.meta["val"])
        target = getattr(getattr(torch.ops.aten, bound), torch._C._jit_resolve_packet(f"aten::{bound}", *known[0], **known[1]))
        made.append(_before(node, target, tuple(mine.values()), named, node.meta["val"][index], bound.strip("_")))
    return made


def _before(node: Any, target: Any, given: tuple[Any, ...], named: Mapping[str, Any], val: Any, name: str) -> Any:
    with node.graph.inserting_before(node):
        made = node.graph.create_node("call_function", target, given, named, name=name)
    made.meta = {**node.meta, "val": val}
    return made


def _seed(aten: Any, node: Any) -> list[Any]:
    """One of several seeds, as a view: torch 2.6 refuses to run its own op, since what that returns is one."""
    return [_before(node, aten.select.int, (node.args[0], 0, node.args[1]), {}, node.meta["val"], node.name)]


def _scatter(aten: Any, node: Any) -> list[Any]:
    """A scatter into a constant, which torch 2.6 to 2.8 lower as one loop."""
    of, where = node.kwargs, node.kwargs["selector"].meta["val"].device
    full = _before(
        node, aten.full.default, (of["shape"], of["background_val"]), {"dtype": of["dtype"], "device": where}, node.meta["val"], "full"
    )
    return [full, _before(node, aten.scatter.value, (full, of["dim"], of["selector"], of["val"]), {}, node.meta["val"], "scatter")]


_WRITTEN_OUT: Final = {"inductor_lookup_seed.default": _seed, "scatter_upon_const_tensor": _scatter}
"""Ops by the names of their targets, and what writes them in others."""
