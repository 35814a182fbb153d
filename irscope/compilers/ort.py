"""What ONNX Runtime decided: the kernels of its optimized model, the nodes of yours behind each, and their times.

A session writes its model after its rewrites, and each node of that model runs as one kernel of ONNX Runtime's own library. A value that
both models name is the same value: rewrites that change what a value is give it a new name. But names alone are not enough to say what a
kernel computes. Where a rewrite renames values inside, the kernel that makes the last named value would get all nodes behind it, and the
others none. The sound unit is a *region*: the kernels between values that both models name, and the nodes between the same values. In a
region of one kernel the nodes are that kernel's. In one of several kernels they are told apart by name and by kind, which is a guess and is
marked as one.
"""

import json
import logging
import re
import statistics
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np

from irscope._base.nested import grouped, reached
from irscope._base.words import listed, plural
from irscope.analysis.memory_plan import OwnMemory
from irscope.compilers.record import Certainty, Change, Decisions, Kernel, Program, Region, likely
from irscope.errors import ArgumentError, LoadError, MissingExtra
from irscope.frontends.onnx import source as onnx_source
from irscope.ir import Graph, Node, TensorType, Value

compiler: Final = "onnxruntime"
name: Final = "an ONNX model, as a file or a ModelProto; asked for by name also a torch model with arguments"
_RUNS: Final = 10
_LEVELS: Final = ("basic", "extended", "all")


def reads(source: object, compiler: str | None) -> bool:
    """Accepts what is an ONNX model for `irs.load`, and, if ONNX Runtime is asked for, torch models and graphs of them."""
    if compiler not in ("onnxruntime", None):
        return False
    return onnx_source.reads(source, ()) or (compiler is not None and torch_model_of(source) is not None)


def decisions(source: Any, args: Sequence[Any], *, level: Literal["basic", "extended", "all"] = "all") -> Decisions:
    """Returns what ONNX Runtime makes of a model on a CPU at an optimization level. With arguments it runs, and each kernel has a time.

    Raises LoadError for a model that it does not take, ArgumentError for arguments that do not fit, MissingExtra without the package.
    """
    if level not in _LEVELS:
        raise ArgumentError(f"level is one of {', '.join(map(repr, _LEVELS))}, not {level!r}")
    ort = _imported("onnxruntime", "to see what ONNX Runtime makes of a model")
    eager = eager_call(source)
    if eager is not None:
        source = exported(source, args)
    graph, model, flat, made = onnx_source.load_by_node(source, args)
    with tempfile.TemporaryDirectory(prefix="irscope-ort-") as folder:
        session, optimized = _compiled(ort, source, model, Path(folder), level, is_timed=bool(args))
        times, memory = _profiled(session, _feeds(session, args), optimized.graph.node) if args else ({}, None)
    if flat is not model.graph:
        _rename_inlined(flat, optimized.graph)
    program = _program(graph, flat, optimized.graph, made, times, partial(_call, session))
    program = replace(program, memory=memory)
    return Decisions(compiler, (program,), version=str(ort.__version__), call=partial(_call, session), eager=eager)


def _imported(package: str, purpose: str) -> Any:
    try:
        return import_module(package)
    except ImportError as failed:
        error = MissingExtra(package, extra="onnx", purpose=purpose)
        error.hint = f"pip install {package}" if "irscope[" in error.hint else error.hint
        if not isinstance(failed, ModuleNotFoundError) and (not str(failed) or "numpy" in str(failed).lower()):
            error.hint = f"it may be made for another NumPy than {np.__version__}: pip install --upgrade {package}"
        raise error from None


# A torch model


def torch_model_of(source: object) -> Any:
    """Returns a torch module, or the one that a graph was loaded from; None for anything else."""
    held = source.origin.function if isinstance(source, Graph) and source.origin is not None else source
    torch = sys.modules.get("torch")
    return held if torch is not None and isinstance(held, torch.nn.Module) else None


def eager_call(source: object) -> Callable[..., Any] | None:
    """Returns a call of a torch module, or of the one that a graph was loaded from, which takes arrays, too; None for anything else."""
    model = torch_model_of(source)

    def call(*args: Any) -> Any:
        return model(*(sys.modules["torch"].from_numpy(arg) if isinstance(arg, np.ndarray) else arg for arg in args))

    return None if model is None else call


def exported(source: Any, args: Sequence[Any]) -> Any:
    """Returns the ModelProto that torch makes of a module, with these arguments or with those that its graph was loaded for.

    Raises LoadError, with torch's words, if it cannot, and MissingExtra without onnxscript, which torch needs for it.
    """
    from irscope.frontends.torch.capture import capturing
    from irscope.frontends.torch.export_source import check_arguments
    from irscope.frontends.torch.types import require_torch

    torch = require_torch("to export a model")
    _imported("onnxscript", "to export a torch model to ONNX")
    model = torch_model_of(source)
    if not isinstance(source, Graph):
        check_arguments(model.forward, args, type(model).__name__, "irs.decisions")
    given = tuple(args) if args or not isinstance(source, Graph) else tuple(_zeros(torch, value) for value in source.free_inputs)
    log = logging.getLogger("torch.onnx")
    before = log.level
    try:
        log.setLevel(logging.ERROR)  # of its loggers, some of which are only made now
        with warnings.catch_warnings(), capturing():
            warnings.simplefilter("ignore")
            return torch.onnx.export(model, given, dynamo=True, verbose=False).model_proto
    except Exception as error:
        said = re.sub(r"\x1b\[[\d;]*m", "", str(error)).rpartition("## Exception summary")[2]
        lines = [line for line in said.splitlines() if line.strip()][:6]
        hint = "torch.onnx.export(model, args, dynamo=True) may say more; or give an ONNX file"
        raise LoadError("torch cannot export this model to ONNX", where="\n".join(lines), hint=hint) from None
    finally:
        log.setLevel(before)


def _zeros(torch: Any, value: Value) -> Any:
    type = value.type
    if not isinstance(type, TensorType) or not type.is_static or type.dtype is None:
        raise ArgumentError(f"the input {value.name} is not a tensor of known extents: {type}", hint="pass the model and its arguments")
    return torch.zeros(type.shape, dtype=getattr(torch, type.dtype))


# A session


def _compiled(ort: Any, source: Any, model: Any, folder: Path, level: str, *, is_timed: bool) -> tuple[Any, Any]:
    """Returns a session, and the model that it runs. Nodes without a name get one, so that times can be told apart."""
    import onnx

    options = ort.SessionOptions()
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, f"ORT_ENABLE_{level.upper()}")
    options.optimized_model_filepath = str(folder / "optimized.onnx")
    options.log_severity_level = 4
    options.add_session_config_entry("session.optimized_model_external_initializers_file_name", "weights.bin")
    if is_timed:
        options.enable_profiling, options.profile_file_prefix = True, str(folder / "profile")
    try:
        session = ort.InferenceSession(_given(source, model), options, providers=["CPUExecutionProvider"])
        optimized = onnx.load(options.optimized_model_filepath, load_external_data=False)
    except Exception as error:  # classes of onnxruntime's own, one for each of its codes
        what = f"onnxruntime {ort.__version__} does not take this model: {_said(error)}"
        raise LoadError(what, hint="onnx.checker.check_model may say more; export the model for an older opset") from None
    return session, optimized


def _given(source: Any, model: Any) -> Any:
    """Returns the model as bytes, in which each node has a name of its own, or the path of one whose weights are in other files."""
    from onnx import TensorProto

    if any(tensor.data_location == TensorProto.EXTERNAL for tensor in model.graph.initializer):
        return str(source)
    copy = type(model)()
    copy.CopyFrom(model)
    seen: set[str] = set()
    for number, node in enumerate(copy.graph.node):
        if not node.name or node.name in seen:
            node.name = f"{node.op_type}_{number}"
        seen.add(node.name)
    try:
        return copy.SerializeToString()
    except ValueError:  # protobuf's limit of two GB
        if not isinstance(source, Path):
            hint = "save it with its weights beside it, and give the file"
            raise LoadError("the model is larger than protobuf's two GB", hint=hint) from None
        return str(source)


def _said(error: Exception) -> str:
    text = str(error)
    return text.rpartition(" : ")[2].partition("\n")[0][:400] or type(error).__name__


def _feeds(session: Any, args: Sequence[Any]) -> dict[str, Any]:
    inputs = session.get_inputs()
    if len(args) != len(inputs):
        expected = ", ".join(f"{each.name}: {each.type} {each.shape}" for each in inputs)
        raise ArgumentError(f"{plural(len(args), 'argument')} for a model that takes {len(inputs)}", hint=f"pass {expected}")
    held = [arg.detach().cpu() if hasattr(arg, "detach") else arg for arg in args]  # what requires a gradient is no array
    return {each.name: np.asarray(arg) for each, arg in zip(inputs, held, strict=True)}


def _call(session: Any, *args: Any) -> Any:
    """Runs the compiled model; one result is returned as it is, several as a tuple."""
    if not session.get_outputs():
        raise ArgumentError("onnxruntime does not run a model without outputs", hint="leave out the arguments, or add an output")
    try:
        results = session.run(None, _feeds(session, args))
    except Exception as error:
        if isinstance(error, ArgumentError):
            raise
        raise ArgumentError(f"onnxruntime cannot run the model with these arguments: {_said(error)}") from None
    return results[0] if len(results) == 1 else tuple(results)


def _profiled(
    session: Any, feeds: Mapping[str, Any], nodes: Sequence[Any]
) -> tuple[dict[int, tuple[str, float]], OwnMemory | None]:  # fmt: skip
    """Returns, by the number of a node of its model, the name that a kernel has in its profile, and its milliseconds a run, the median of
    several; and what the CPU's arena has in use after each, in the first run, which allocates them one by one: None for a version whose
    profile does not say so. Kernels run in the order of that model; those of the body of a branch or loop stand before its own."""
    for _ in range(_RUNS + 1):
        _call(session, *feeds.values())
    events = json.loads(Path(session.end_profiling()).read_text(encoding="utf-8"))
    spent: list[list[tuple[str, float]]] = [[] for _ in nodes]
    moments, held, total, at = list[str](), list[int](), 0, 0
    for event in events:
        if event.get("cat") == "Node" and nodes and str(event.get("name", "")).endswith("_kernel_time"):
            name, said = event["name"].removesuffix("_kernel_time"), event.get("args", {})
            if not spent[-1] and name not in moments and "mem_bytes_in_use" in said:
                moments.append(name)
                held.append(int(said["mem_bytes_in_use"]))
                total = max(total, int(said.get("mem_arena_held", 0)))
            if said.get("op_name", nodes[at].op_type) == nodes[at].op_type and nodes[at].name in ("", name):
                spent[at].append((name, event["dur"] / 1e3))
                at = (at + 1) % len(nodes)
    after_first = {k: each[1:] for k, each in enumerate(spent) if len(each) == _RUNS + 1}  # the first run allocates
    times = {k: (each[0][0], statistics.median([ms for _, ms in each])) for k, each in after_first.items()}
    where = "its profile: what the arena has in use after each kernel, in the first run"
    return times, OwnMemory(where, tuple(moments), held=tuple(held), total=total) if moments else None


# Regions


class _Side:
    """One of the two models: its nodes, who makes each value, and what is there before it runs."""

    def __init__(self, graph: Any) -> None:
        self.nodes = list(graph.node)
        self.maker = {value: index for index, node in enumerate(self.nodes) for value in node.output if value}
        self.inputs = {each.name for each in graph.input}
        self.given = self.inputs | {each.name for each in graph.initializer} | {each.values.name for each in graph.sparse_initializer}
        self.alias: dict[str, str] = {}
        """For values that another node of the model makes, too, that node's: ONNX Runtime computes these once."""

    def behind(self, value: str, named: set[str]) -> list[int]:
        """Returns the nodes on the way back from a value to values that are named in both models, in program order."""

        def before(index: int) -> list[int]:
            read = (self.alias.get(name, name) for name in _reads(self.nodes[index]))
            return [self.maker[name] for name in read if name in self.maker and name not in named]

        return sorted(reached([self.maker[value]], before))


def _reads(node: Any) -> Iterator[str]:
    """Yields the values that a node reads, those that only its bodies read included."""
    todo = [node]
    while todo:
        each = todo.pop()
        yield from each.input
        for attribute in each.attribute:
            for body in (attribute.g, *attribute.graphs) if attribute.HasField("g") or attribute.graphs else ():
                todo += body.node
                yield from (value.name for value in body.output)


def _regions(before: _Side, after: _Side) -> list[tuple[list[int], list[int]]]:
    """Returns pairs of kernels and of nodes that compute the same values from the same values, in the order of the kernels.

    Regions that have a kernel in common are one. Those that have only a node in common are not: each computes it.
    """
    shared = {value for value in after.maker if value in before.maker}
    named = shared | after.given | before.given | _constants(before) - after.maker.keys()
    region_of: dict[int, int] = {}
    regions: list[tuple[set[int], set[int]] | None] = []
    for value in sorted(shared, key=after.maker.__getitem__):
        kernels, nodes = set(after.behind(value, named)), set(before.behind(value, named))
        for old in sorted({region_of[kernel] for kernel in kernels if kernel in region_of}):
            joined = regions[old]
            assert joined is not None  # `region_of` has only those that stand
            kernels |= joined[0]
            nodes |= joined[1]
            regions[old] = None
        region_of.update(dict.fromkeys(kernels, len(regions)))
        regions.append((kernels, nodes))
    found = [(sorted(kernels), sorted(nodes)) for kernels, nodes in filter(None, regions)]
    return sorted(found)


_COPY: Final = re.compile(r"__\d+$")


def _rename_inlined(model: Any, optimized: Any) -> None:
    """Gives values inside of functions ONNX Runtime's names where these can be told: `_inlfunc_Block_token_0_m` is the `m` of a call of
    Block, which onnx's inliner calls `m__3`. They are told apart by region, as a rule one call."""
    before, after = _Side(model), _Side(optimized)
    found: list[tuple[str, str]] = []
    for kernels, nodes in _regions(before, after):
        inlined = (value for kernel in kernels for value in after.nodes[kernel].output if value.startswith("_inlfunc_"))
        parts = ((value, value.split("_")) for value in inlined)
        ends = grouped(("_".join(words[k:]), value) for value, words in parts for k in range(3, len(words)))
        own = [value for node in nodes for value in before.nodes[node].output if _COPY.search(value) and value not in after.maker]
        found += [(value, *same) for value in own if len(same := ends.get(_COPY.sub("", value), ())) == 1]
    times = Counter(its for _, its in found)
    names = {value: its for value, its in found if times[its] == 1}
    for node in before.nodes if names else ():
        for values in (node.input, node.output):
            values[:] = [names.get(value, value) for value in values]


def _constants(side: _Side) -> set[str]:
    """Returns the values that do not depend on an input: ONNX Runtime computes them when it loads the model."""
    found = side.given - side.inputs
    for node in side.nodes:
        if all(read in found or not read for read in _reads(node)) and not node.op_type.startswith(("Random", "Bernoulli", "Multinomial")):
            found.update(value for value in node.output if value)
    return found


# Kernels


@dataclass(frozen=True)
class _Link:
    """What one kernel computes: nodes of the model, by number."""

    nodes: tuple[int, ...] = ()
    part_of: tuple[int, ...] = ()
    certainty: Certainty = "exact"
    because: str = ""


def _links(before: _Side, after: _Side, regions: Sequence[tuple[list[int], list[int]]]) -> dict[int, _Link]:
    links: dict[int, _Link] = {}
    for kernels, nodes in regions:
        if len(kernels) == 1:
            kept = len(nodes) == 1 and _is_kept(before.nodes[nodes[0]], after.nodes[kernels[0]])
            because = "" if kept else "the values around it have the same names in both models"
            links[kernels[0]] = _Link(tuple(nodes), (), "exact" if kept else "matched", because)
        elif nodes:
            links.update(_guessed(before, after, kernels, nodes))
    return links


def _is_kept(node: Any, kernel: Any) -> bool:
    return node.op_type == kernel.op_type and (node.domain or "") == (kernel.domain or "")


def _guessed(before: _Side, after: _Side, kernels: Sequence[int], nodes: Sequence[int]) -> Iterator[tuple[int, _Link]]:
    """Yields how the nodes of a region are told apart: a kernel takes the first node of its kind, a node without a kernel goes to that
    of its user, or else of what it reads."""
    because = f"ONNX Runtime renamed the values between {plural(len(nodes), 'node')} that {plural(len(kernels), 'kernel')} compute"
    certainty: Certainty = "guessed"
    kinds = {before.nodes[node].op_type for node in nodes}
    moving = [each for each in kernels if (kind := after.nodes[each].op_type) in _MOVES and kind not in kinds]
    holder: dict[int, int] = {}
    if len(moving) == len(kernels) - 1:
        certainty, because = ("matched", "the kernels around it only move its operands and results into another shape or layout")
        holder = dict.fromkeys(nodes, next(each for each in kernels if each not in moving))
    elif len(nodes) == 1:  # by the function that defines the op
        certainty, because = "matched", f"ONNX Runtime computes one node by {len(kernels)} kernels, of which the last makes its result"
        holder = {nodes[0]: kernels[-1]}
    for kernel in (each for each in kernels if each not in moving):
        for node in nodes:
            kind, other = after.nodes[kernel].op_type, before.nodes[node].op_type
            if node not in holder and (other.lower() in kind.lower() or {kind, other} == {"MatMul", "Gemm"}):
                holder[node] = kernel  # FusedMatMul has MatMul in its name, SkipLayerNormalization LayerNormalization
                break
        fused = _activation(after.nodes[kernel])
        applied = next((node for node in nodes if before.nodes[node].op_type == fused and node not in holder), None)
        if applied is not None:
            holder[applied] = kernel
    users = {read: node for node in reversed(nodes) for read in _reads(before.nodes[node])}
    for node in reversed(nodes):
        if node not in holder:
            used = next((users[value] for value in before.nodes[node].output if value in users), None)
            if used is not None and used in holder:
                holder[node] = holder[used]
    for node in nodes:
        if node not in holder:
            made = [before.maker[read] for read in _reads(before.nodes[node]) if read in before.maker]
            holder[node] = next((holder[each] for each in made if each in holder), kernels[-1])
    last = nodes[0]
    for kernel in kernels:
        mine = tuple(node for node in nodes if holder[node] == kernel)
        last = mine[-1] if mine else last
        yield kernel, _Link(mine, () if mine else (last,), certainty, because)


_MOVES: Final = frozenset({"Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten", "Identity", "Cast", "ReorderInput", "ReorderOutput"})


def _activation(kernel: Any) -> str:
    """Returns the op that a kernel applies to its result, as FusedConv does; empty if none."""
    return next((each.s.decode("utf-8", "replace") for each in kernel.attribute if each.name == "activation"), "")


def _program(
    graph: Graph, model: Any, optimized: Any, made: Sequence[tuple[Node, ...]], times: Mapping[int, tuple[str, float]],
    run: Callable[..., Any],
) -> Program:  # fmt: skip
    before, after = _Side(model), _Side(optimized)
    before.alias = _twins(before.nodes, after.maker)
    regions = _regions(before, after)
    links = _links(before, after, regions)

    def nodes_of(numbers: Iterable[int]) -> tuple[Node, ...]:
        return tuple(node for number in numbers for node in made[number] if node.op != "prim::Constant" and node in graph.position)

    kernels = []
    for index, each in enumerate(after.nodes):
        link = links.get(index, _Link((), (), "matched", "no value that both models name depends on it"))
        op = f"{each.domain}.{each.op_type}" if each.domain not in ("", "ai.onnx") else each.op_type
        nodes, part_of = nodes_of(link.nodes), nodes_of(link.part_of)
        because = link.because
        if any(node.blocks for node in nodes):  # a branch or loop, which runs kernels of its own
            nodes, part_of = (), nodes
        elif link.nodes and not nodes:
            because = "irs.load makes a constant of its node, or its operand itself"
        title, ms = times.get(index, (each.name or f"{each.op_type}_{index}", None))
        kernels.append(Kernel(title, nodes, True, function=op, part_of=part_of, certainty=link.certainty, because=because, ms=ms))
    changes = tuple(_changes(before, after, regions, links, [tuple(nodes_of([k])) for k in range(len(made))]))
    facts: dict[str, Any] = {"run": run, "changes": changes, "name": graph.name, "compiler": compiler}
    program = likely(graph, kernels, **facts)
    joint = [
        Region(tuple(program.kernels[kernel] for kernel in several), nodes_of(nodes)) for several, nodes in regions if len(several) > 1
    ]  # fmt: skip
    return replace(program, regions=tuple(joint))


def _changes(
    before: _Side, after: _Side, regions: Sequence[tuple[list[int], list[int]]], links: Mapping[int, _Link],
    made: Sequence[tuple[Node, ...]],
) -> Iterator[Change]:  # fmt: skip
    """Yields the nodes of the model that no kernel computes, with the nodes that took their place, and the kernels that compute no node."""
    computed = {node for _, nodes in regions for node in nodes}
    constants = _constants(before)
    for index, node in enumerate(before.nodes):
        if index in computed:
            continue
        twin = next((before.maker[before.alias[value]] for value in node.output if value in before.alias), None)
        because, became = "nothing reads its result after the rewrites", tuple[Node, ...]()
        if any(value in after.given or value in constants for value in node.output):
            because = "its result was computed once, when the model was loaded"
        elif twin is not None:
            because, became = "another node computes the same of the same operands", made[twin]
        place = made[index][-1:]
        yield Change(
            "vanished", node.op_type, listed(list(node.output), most=3), became, because,
            place[0].location if place else None, place[0].scope if place else "", "matched", made[index],
        )  # fmt: skip
    for index, kernel in enumerate(after.nodes):
        if index in links and not links[index].nodes:
            because = "it computes no node of the model by itself"
            yield Change("added", kernel.op_type, listed(list(kernel.output), most=3), because=because)


def _twins(nodes: Sequence[Any], kept: Container[str]) -> dict[str, str]:
    """Returns, for results that are not kept, those of a node of the same op, operands and attributes: one whose results are kept."""
    groups: dict[tuple[object, ...], list[Any]] = {}
    first: dict[str, str] = {}
    for node in nodes:
        if node.op_type.startswith(("Random", "Bernoulli", "Multinomial", "Dropout")):
            continue
        attributes = tuple(sorted(each.SerializeToString() for each in node.attribute))
        same = groups.setdefault((node.domain, node.op_type, tuple(first.get(name, name) for name in node.input), attributes), [])
        same.append(node)
        first.update(zip(node.output, same[0].output, strict=False))
    found: dict[str, str] = {}
    for same in groups.values():
        stays = next((node for node in same if any(value in kept for value in node.output)), same[0])
        for node in same:
            if node is not stays and not any(value in kept for value in node.output):
                found.update({old: new for old, new in zip(node.output, stays.output, strict=False) if old and new})
    return found
