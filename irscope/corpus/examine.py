"""The examination of one model: load, alias, fuse, views, fingerprints; and the record that a survey keeps, as plain JSON.

A worker examines each model in a copy of itself (`isolated`), which has limits of time and memory, so that one that crashes,
hangs or takes everything costs only its own row. The packages that a copy imported (mostly torch) are imported by the
worker afterwards, so that later copies find them there.

A group is kept with two digests. Equal digests by `alpha` are equal kernels (`irscope.transforms.dedup.form` says why), whatever
their models; equal digests by `dtype`, the coarsest relation, mark kernels that are worth comparing. A group that holds an object known
only by identity equals no group of another model: its digest includes the model's key.
"""

import gc
import os
import pickle
import platform
import sys
import time
from collections import Counter
from contextlib import suppress
from functools import partial
from hashlib import blake2b
from importlib import import_module
from pathlib import Path
from threading import Thread
from typing import Any, Final

from irscope._base.isolated import IsolatedError, isolated
from irscope._base.words import byte_count, shortened
from irscope.analysis.per_graph import alias_db_of
from irscope.analysis.views import ViewAliases
from irscope.codegen.lowering import spec_of_group
from irscope.corpus.sources import Settings, Source
from irscope.corpus.tables import MANIFEST, failure, has_record, read_record, write_record
from irscope.errors import ArgumentError, CodegenError, IrscopeError, LoadError, MissingExtra
from irscope.ir import GROUPS, Graph, Module, Node, TensorType, Value, has_kernel, make_block, new_id
from irscope.ir.module import graphs_of, inlined, public_graphs
from irscope.ir.structural import free_values
from irscope.ir.text import print_graph
from irscope.ops.registry import category_of
from irscope.ops.type_rules import static_shape
from irscope.ops.view_steps import typical
from irscope.runtime.measure.fx_export import torch_function
from irscope.session import load
from irscope.transforms.dedup import Dedup, dedup, fingerprint, has_stable_fingerprint, pieces_of
from irscope.transforms.dedup.piece import Piece, Relation, format_ops
from irscope.transforms.dedup.rewrite import compile_seconds
from irscope.transforms.fusion import Fusion, fuse

Record = dict[str, Any]
_MOST_TEXT: Final = 1 << 16
"""Characters; larger groups are not compared with their near-misses."""
_HEAVY: Final = frozenset({
    "irscope", "iree", "jax", "jaxlib", "mpmath", "networkx", "numpy", "onnx", "onnxscript", "pandas", "scipy", "sympy", "torch",
    "transformers",
})  # fmt: skip
"""Packages that are worth importing once for all copies; importing them starts no threads."""
COMPILERS: Final = ("inductor",)
"""Compilers whose groups a survey can be about."""
_NO_MEMORY: Final = "can't allocate memory"
"""The text of torch's RuntimeError when its allocator runs out of memory."""


def examine(job: tuple[str, Source, Settings]) -> str:
    """Examines a model and writes its record, unless it has one; returns why it is left out, or "". A worker's task.

    Raises LoadError if this worker does not see the survey's folder.
    """
    out, source, settings = Path(job[0]), job[1], job[2]
    if not (out / MANIFEST).exists():
        what = f"a worker on {platform.node()!r} does not see the folder {str(out)!r}"
        raise LoadError(what, hint="give a folder that all workers see under the same path")
    if not has_record(out, source, settings):
        write_record(out, source, _record_in_copy(source, settings))
    found = read_record(out, source) or {}
    return str(found.get("failure", {}).get("what", ""))


def _record_in_copy(source: Source, settings: Settings) -> Record:
    limits = (settings.seconds, settings.memory)
    try:
        made: Record = isolated(partial(_answer, source, settings, os.getpid()), seconds=settings.seconds, memory=settings.memory)
    except IsolatedError as error:
        kind = error.kind if error.kind in ("exit", "memory") else "limit"
        return failure(kind, f"it {error}", limits=None if kind == "exit" else limits)
    for name in made.pop("imported"):
        if name not in sys.modules:
            with suppress(Exception):
                import_module(name)
    return made


def _answer(source: Source, settings: Settings, worker: int) -> Record:
    """Returns a model's record, or that of its failure, and the packages that it imported."""
    from resource import RUSAGE_SELF, getrusage  # systems without it have no copies either

    known = set(sys.modules)
    gc.freeze()
    gc.enable()  # a large model leaves garbage, and a copy starts with the collector off
    Thread(target=_end_with, args=(worker,), daemon=True).start()
    try:
        record = analyse(source, settings)
        peak = getrusage(RUSAGE_SELF).ru_maxrss  # of this copy, including what it started with
        record["peak_bytes"] = peak if sys.platform == "darwin" else 1024 * peak
    except MissingExtra as error:
        record = failure("MissingExtra", f"{error}")
    except IrscopeError as error:
        record = failure(type(error).__name__, shortened(str(error), 2000))
    except BaseException as error:
        # a model's own code may raise anything, and a bad one must not end a survey
        if isinstance(error, MemoryError) or _NO_MEMORY in str(error):
            limits = (settings.seconds, settings.memory)
            record = failure("memory", f"it needs over {byte_count(settings.memory)} of memory", limits=limits)
        else:
            record = failure(type(error).__name__, shortened(f"{type(error).__name__}: {error}", 2000))
    names = [name for name in sys.modules if name not in known and name.partition(".")[0] in _HEAVY]
    return record | {"imported": names}


def _end_with(worker: int) -> None:
    """Ends a copy whose worker is gone: nobody would read what it finds."""
    while os.getppid() == worker:
        time.sleep(1)
    os._exit(1)


def analyse(source: Source, settings: Settings) -> Record:
    """Returns a model's record for a survey. Raises any error of loading and analysing it."""
    started = time.process_time()
    program = program_of(source, settings)
    if isinstance(program, Module):
        record = _classes(dedup(program), source.key, None)
        nodes = sum(1 for _, graph in graphs_of(program) for _ in graph.nodes())
        record |= {"model": {"nodes": nodes}, "remarks": [], "ops": []}
    else:
        fusion = fuse_by(program, settings.policy)
        record = _classes(dedup(fusion), source.key, fusion)
        record |= {"model": _facts(fusion.original, fusion), "remarks": _remarks(fusion), "ops": _ops(fusion)}
    record["model"] |= {"groups": len(record["groups"]), "classes": len(record["bodies"])}
    return {**record, "seconds": round(time.process_time() - started, 3)}


def fuse_by(graph: Graph, policy: str) -> Fusion:
    """Returns the groups of a program by a policy of irscope, or those that a compiler forms of it. Raises ArgumentError for a program
    that it cannot be given: one whose arguments are not all tensors of known sizes, or that holds control flow."""
    if policy not in COMPILERS:
        return fuse(graph, policy=policy)
    from irscope.compilers import decisions

    return decisions(torch_function(graph), *map(_example_of, graph.free_inputs), compiler=policy).program.fusion


def _example_of(value: Value) -> Any:
    if not isinstance(value.type, TensorType) or not value.type.is_static or value.type.dtype is None:
        what = f"a compiler is given arguments, and the program takes a {value.type}"
        raise ArgumentError(what, hint="give the survey a function that returns the model and its example arguments")
    import torch

    shape, strides = static_shape(value.type), value.type.strides
    made = torch.zeros(shape, dtype=getattr(torch, value.type.dtype))
    return made if strides is None or None in strides else torch.empty_strided(shape, strides, dtype=made.dtype).zero_()


def program_of(source: Source, settings: Settings) -> Graph | Module:
    """Returns a source's program: one graph, or a module of executables or of several public functions."""
    made: Any = Path(source.path) if source.path else pickle.loads(source.pickled)
    arguments: list[Any] = []
    is_of_torch = any(kind.__module__.partition(".")[0] == "torch" for kind in type(made).__mro__[:-1])
    if callable(made) and not is_of_torch:  # a TorchScript function or a torch module is itself a program
        made = made()
    if isinstance(made, tuple) and made:
        made, *arguments = made
    program: Graph | Module = load(made, *arguments, name=source.name, trust=settings.trust)
    if isinstance(program, Module) and not program.modules and len(public_graphs(program)) < 2:
        program = inlined(program)
    return program


def _facts(graph: Graph, fusion: Fusion) -> Record:
    views, db = ViewAliases(fusion.original), alias_db_of(fusion.original)
    kinds = {value: views.kind(value) for value in views.tensors()}
    traffic = [fusion.traffic(group) for group in fusion.groups]
    nodes = [node for node in fusion.original.nodes() if node.op != "prim::Constant"]
    return {
        "nodes": sum(node.op != "prim::Constant" for node in graph.nodes()),
        "in_groups": sum(node.op != "prim::Constant" for group in fusion.groups for node in group.blocks[0].nodes),
        "writes": sum(bool(db.is_mutable(node)) for node in nodes),
        "views": sum(kind == "view" for kind in kinds.values()),
        "view_copies": sum(kinds.get(value) == "copy" for node in nodes if category_of(node) == "view" for value in node.outputs),
        "bytes_before": typical(sum(before for before, _ in traffic)),
        "bytes_after": typical(sum(after for _, after in traffic)),
    }


def _classes(found: Dedup, key: str, fusion: Fusion | None) -> Record:
    """Returns the groups of a model, and each distinct one once."""
    rows: list[Record] = []
    bodies: list[Record] = []
    place = {member: number for number, member in enumerate(pieces_of(found.source)[0])}
    for cls in found.classes:
        if fusion is not None and not isinstance(cls.representative, Node):
            continue  # a graph without groups
        piece = found.piece(cls.representative)
        own = "" if has_stable_fingerprint(piece) else f"{key} {len(bodies)}"
        for member in cls.members:
            made = fusion is not None and isinstance(member, Node) and fusion.made(member)
            before, after = fusion.traffic(member) if fusion is not None and isinstance(member, Node) and made else (0, 0)
            rows.append({
                "group": place[member], "result": shortened(found.piece(member).label, 200), "body": len(bodies),
                "bytes_before": typical(before), "bytes_after": typical(after),
            })  # fmt: skip
        bodies.append(_body(piece, own))
    return {"groups": sorted(rows, key=lambda row: int(row["group"])), "bodies": bodies}


def _body(piece: Piece, own: str) -> Record:
    node = piece.member
    runs = isinstance(node, str) or has_kernel(node)
    return {
        "fingerprint": _mark(piece, "alpha", own), "coarse": _mark(piece, "dtype", own), "nodes": len(piece.nodes),
        "ops": format_ops(piece.nodes), "kind": "executable" if isinstance(node, str) else str(piece.attrs.get("kind", "group")),
        "compile_s": compile_seconds(piece, {}) if runs else 0.0,
        "kernels": _kernels(node) if isinstance(node, Node) and runs else [],
        "text": "" if own or isinstance(node, str) else _text(node),
    }  # fmt: skip


def _mark(piece: Piece, relation: Relation, own: str) -> str:
    mark = fingerprint(piece, relation)
    return blake2b(own.encode(), digest_size=16).hexdigest() if own else mark.hex()


def _kernels(group: Node) -> list[str]:
    """Returns the names of the kernels that would be compiled for a group; none where that depends on the arguments."""
    try:
        plan = spec_of_group(group, [value.type for value in group.inputs])
    except CodegenError:
        return []
    return sorted({launch.spec.name for launch in plan.launches})


def _text(group: Node) -> str:
    """Returns the text of a program with only this group, if it is small."""
    outer = free_values(group)
    block = make_block(new_id(), (*dict.fromkeys((*group.inputs, *outer)),), (group,), group.outputs)
    text = print_graph(Graph(block, "group"), locations=False)
    return text if len(text) <= _MOST_TEXT else ""


def _remarks(fusion: Fusion) -> list[Record]:
    """Returns how often each rule decided, for which op, and the first decision in words."""
    found: dict[tuple[str, str, str], Record] = {}
    for record in fusion.history.records:
        for remark in record.remarks:
            op = remark.subject.op if isinstance(remark.subject, Node) else ""
            first = {"kind": remark.kind, "rule": remark.rule, "op": op, "count": 0, "example": shortened(remark.because, 300)}
            found.setdefault((remark.kind, remark.rule, op), first)["count"] += 1
    return list(found.values())


def _ops(fusion: Fusion) -> list[Record]:
    """Returns how many nodes of each op are in groups and how many are not, and why the first of the latter is not."""
    inside, outside = Counter[str](), Counter[str]()
    first: dict[str, Node] = {}
    graph = fusion.graph
    for node in graph.nodes():
        owner = graph.owner.get(graph.block_of[node])
        if node.op in GROUPS and node.blocks:
            inside.update(each.op for block in node.blocks for each in block.nodes if each.op != "prim::Constant")
        elif node.op != "prim::Constant" and (owner is None or owner.op not in GROUPS):
            outside[node.op] += 1
            first.setdefault(node.op, node)
    because = {op: shortened(fusion.why_alone(node).because, 300) for op, node in first.items()}
    return [{"op": op, "in_groups": inside[op], "alone": outside[op], "because": because.get(op, "")} for op in sorted({*inside, *outside})]
