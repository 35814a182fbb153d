"""Work that need not be done: copies, results that are computed again, tensors that grow piece by piece, float64 by accident."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

import numpy as np

from irscope._base.frozen import FrozenDict
from irscope._base.nested import grouped
from irscope._base.words import byte_count, listed, plural
from irscope.frontends.torch.types import payload_of
from irscope.ir import NOT_CONSTANT, Block, Graph, Node, Rewriter, TensorData, TensorType, Value, constant_of, make_node, new_id
from irscope.ops.registry import category_of
from irscope.ops.traits import JOINS, MAY_COPY
from irscope.runtime.arrays import is_torch_tensor
from irscope.runtime.profile.costs import TensorFacts
from irscope.runtime.profile.evidence import Evidence, Remark, line_of
from irscope.runtime.program import compile_graph
from irscope.transforms.cleanup import remove_dead_nodes
from irscope.transforms.pipeline import Pipeline

# -- programs without that work ---------------------------------------------------------------------------------------


def without_copies(graph: Graph, copies: Iterable[Node]) -> Graph:
    """Returns the graph with the users of these copies reading the originals."""
    rewriter = Rewriter(graph)
    for node in copies:
        rewriter.replace(node.output, node.inputs[0], reason="a redundant copy")
    return remove_dead_nodes(rewriter.finish()).after


def known_once(graph: Graph, values: Sequence[Value]) -> Graph:
    """Returns the graph with values that depend on no argument computed now and held as constants."""
    rewriter = Rewriter(graph)
    for value, tensor in zip(values, _compute(graph, values), strict=True):
        maker = graph.producer[value]
        made = Value(new_id(), value.type, value.name)
        held: FrozenDict[str, Any] = FrozenDict(value=payload_of(tensor) if is_torch_tensor(tensor) else TensorData.of(np.asarray(tensor)))
        constant = make_node(new_id(), "prim::Constant", (), (made,), held, (), maker.location, maker.scope)
        rewriter.insert_before(maker, constant, reason="it is the same in every call")
        rewriter.replace(value, made, reason="it is the same in every call")
    return remove_dead_nodes(rewriter.finish()).after


def _compute(graph: Graph, values: Sequence[Value]) -> list[Any]:
    """Computes values that depend on no argument, and nothing that they do not need."""
    body = replace(graph.body, returns=tuple(values))
    cut = remove_dead_nodes(replace(graph, body=body)).after
    needed = {value for node in cut.nodes() for value in node.inputs}
    params = tuple(value for value in cut.body.params if value in needed)
    bound = {value: held for value, held in cut.bound.items() if value in needed}
    small = replace(cut, body=replace(cut.body, params=params), bound=bound)
    found = compile_graph(small, "cpu", use_kernels=False)()
    return list(found) if isinstance(found, tuple) else [found]


# Redundant copies: of tensors with another layout, and of expanded tensors.
#
# A result is a copy if it has the operand's elements in other memory. Its users could read the operand instead, unless one
# of the two is written while the other is read; the alias db decides that. Consumers that require rows without gaps (a `view`)
# are named instead.

_COPIES: Final = MAY_COPY.union(
    f"aten::{name}"
    for name in "clone _to_copy expand_copy alias_copy permute_copy t_copy transpose_copy view_copy squeeze_copy unsqueeze_copy".split()
)
_REPEATS: Final = frozenset({"aten::repeat", "aten::repeat_interleave", "aten::tile", "aten::expand_copy"})
_WANTS_ROWS: Final = ("aten::view", "aten::view_as", "aten::as_strided")


def copy_remarks(evidence: Evidence) -> Iterator[Remark]:
    """Yields one remark for each line that copies."""
    plain: dict[object, list[Node]] = {}
    expanded: dict[object, list[Node]] = {}
    for row in evidence.rows:
        node = row.node
        given, made = evidence.operand(node), evidence.result(node)
        if given is None or made is None or row.cost.shares_memory:
            continue
        key = line_of(node) or (node.op, node.scope)
        is_copy = node.op in _COPIES and given.dtype == made.dtype and given.full_bytes == made.full_bytes
        if (node.op in _REPEATS or is_copy) and made.bytes >= 2 * given.bytes:
            expanded.setdefault(key, []).append(node)
        elif is_copy:
            plain.setdefault(key, []).append(node)
    yield from (_expanded_remark(evidence, nodes) for nodes in expanded.values())
    yield from (_copy_remark(evidence, nodes) for nodes in plain.values())


def _expanded_remark(evidence: Evidence, nodes: list[Node]) -> Remark:
    made = sum(evidence.cost(node).written_bytes for node in nodes)
    given = [evidence.operand(node) for node in nodes]
    small = sum(facts.bytes for facts in given if facts is not None)
    times = made / max(small, 1)
    saved = evidence.sum_ns(nodes) + sum(
        min(evidence.copy_ns(evidence.cost(node).written_bytes), 0.5 * evidence.ns(user))
        for node in nodes for user in evidence.users(node)
    )  # fmt: skip
    return evidence.remark(
        "expanded-copy", nodes, saved,
        f"it writes {byte_count(made)} that repeat {byte_count(small)} {times:.0f} times",
        "leave the tensor expanded: its users broadcast by themselves",
        change=partial(without_copies, copies=nodes) if _is_replaceable(evidence, nodes) else None,
    )  # fmt: skip


def _copy_remark(evidence: Evidence, nodes: list[Node]) -> Remark:
    moved = sum(evidence.cost(node).bytes for node in nodes)
    given, made = evidence.operand(nodes[0]), evidence.result(nodes[0])
    assert given is not None and made is not None, "both are known for a copy"
    count = sum(evidence.cost(node).calls for node in nodes)
    text = f"{count} copies move {byte_count(moved)}" if count > 1 else f"a copy moves {byte_count(moved)}"
    strides = "" if given.strides == made.strides else f" from strides {list(given.strides)} to {list(made.strides)}"
    makers = [maker for node in nodes for maker in evidence.makers(node) if category_of(maker) == "view"]
    views = f", which {makers[0].op.partition('::')[2]} made" if makers and strides else ""
    wanting = [user for node in nodes for user in evidence.users(node) if user.op in _WANTS_ROWS]
    written = [node for node in nodes if not _may_be_shared(evidence, node)]
    if written:
        advice, certainty = "it keeps apart memory that is written and read: without the write it can be removed", 0.3
    elif wanting:
        advice, certainty = f"{wanting[0].op.partition('::')[2]} requires rows without gaps: reshape the original tensor instead", 0.7
    elif not any(True for node in nodes for _ in evidence.users(node)):
        advice, certainty = "only the caller reads it: return the original tensor, unless these strides are needed", 1.0
    else:
        advice, certainty = "its users can read the original tensor directly", 1.0
    change = partial(without_copies, copies=nodes) if _is_replaceable(evidence, nodes) else None
    return evidence.remark("copy", nodes, evidence.sum_ns(nodes), f"{text}{strides}{views}", advice, certainty=certainty, change=change)


def _may_be_shared(evidence: Evidence, node: Node) -> bool:
    return not (evidence.db.has_writers(node.output) or evidence.db.has_writers(node.inputs[0]))


def _is_replaceable(evidence: Evidence, nodes: list[Node]) -> bool:
    """Checks whether the operand can replace the result: same shape, no writes, and no user that requires gapless rows."""
    for node in nodes:
        given, made = evidence.operand(node), evidence.result(node)
        if given is None or made is None or given.shape != made.shape or not _may_be_shared(evidence, node):
            return False
        if any(user.op in _WANTS_ROWS for user in evidence.users(node)) or evidence.is_returned(node):
            return False
    return True


# Redundant work: the same result in each call, in each turn of a loop, twice in one call, or unused.
#
# A node's result is the same in each call if it is pure and depends on no argument; parameters that are never written do
# not count as arguments. All nodes of one connected stretch are one remark. The other cases follow from equal operands and
# from uses.


def repeated_remarks(evidence: Evidence) -> Iterator[Remark]:
    """Yields remarks on work that need not be repeated."""
    needed = {node.id for node in remove_dead_nodes(evidence.graph).after.nodes()}
    unused = {row.node for row in evidence.rows if row.node.id not in needed}
    known = _same_in_every_call(evidence)
    yield from _rebuilt(evidence, known - unused)
    yield from _twice(evidence, known | unused)
    yield from _unused(evidence, unused)
    yield from _in_every_turn(evidence)


def _same_in_every_call(evidence: Evidence) -> set[Node]:
    graph = evidence.graph
    fixed: set[Value] = set(graph.bound)
    found: set[Node] = set()
    for node in graph.nodes():
        if node.op == "prim::Constant":
            fixed.update(node.outputs)
        elif node in evidence.row_of and all(value in fixed for value in node.inputs) and evidence.is_pure(node):
            fixed.update(node.outputs)
            found.add(node)
    return found


def _rebuilt(evidence: Evidence, known: set[Node]) -> Iterator[Remark]:
    for nodes in _stretches(evidence, known):
        top = [node for node in nodes if evidence.is_returned(node) or any(user not in known for user in evidence.users(node))]
        made = sum(evidence.cost(node).written_bytes for node in nodes)
        reads_parameters = any(value in evidence.graph.bound for node in nodes for value in node.inputs)
        does = ("write" if made else "run") + "s" * (len(nodes) == 1) + (f" {byte_count(made)}" if made else "")
        text = "only parameters affect the result" if reads_parameters else "no argument affects the result"
        values = [v for node in top for v in node.outputs if isinstance(v.type, TensorType)]
        is_on_top = all(evidence.graph.block_of[node] is evidence.graph.body for node in nodes)
        can_change = bool(values) and evidence.readings.device == "cpu" and is_on_top
        yield evidence.remark(
            "rebuilt-constant", nodes, evidence.sum_ns(nodes),
            f"{plural(len(nodes), 'op')} {does} in every call, though {text}",
            "compute it once and keep it: a buffer of the model, or a constant outside of the function",
            change=partial(known_once, values=values) if can_change else None,
        )  # fmt: skip


def _stretches(evidence: Evidence, known: set[Node]) -> list[list[Node]]:
    """Returns the nodes in connected groups."""
    leader: dict[Node, Node] = {}

    def find(node: Node) -> Node:
        while leader.setdefault(node, node) is not node:
            leader[node] = leader[leader[node]]
            node = leader[node]
        return node

    for node in known:
        for maker in evidence.makers(node):
            if maker in known:
                leader[find(maker)] = find(node)
    return list(grouped((find(row.node), row.node) for row in evidence.rows if row.node in known).values())


def _twice(evidence: Evidence, known: set[Node]) -> Iterator[Remark]:
    seen: dict[object, Node] = {}
    same: dict[Value, Value] = {}
    again: set[Node] = set()
    for row in evidence.rows:
        node = row.node
        if node in known or not evidence.is_pure(node):
            continue
        known_as = [(operand, constant_of(evidence.graph, operand)) for operand in (same.get(value, value) for value in node.inputs)]
        operands = tuple(operand if held is NOT_CONSTANT else repr(held) for operand, held in known_as)
        key = (node.op, operands, tuple(sorted((name, repr(held)) for name, held in node.attrs.items())))
        first = seen.setdefault((evidence.graph.block_of[node], key), node)
        if first is not node:
            same.update(zip(node.outputs, first.outputs, strict=True))
            again.add(node)
    for nodes in _stretches(evidence, again):
        if not any(evidence.row_of[node].launches for node in nodes):
            continue  # views cost nothing
        name = nodes[0].op.partition("::")[2]
        behind = f", and {plural(len(nodes) - 1, 'op')} after it too" if len(nodes) > 1 else ""
        yield evidence.remark(
            "computed-again", nodes, evidence.sum_ns(nodes),
            f"{name} of the same operands was computed before{behind}", "keep the first result",
            change=lambda graph: Pipeline("cse,dce")(graph).graph, first=nodes[0],
        )  # fmt: skip


def _unused(evidence: Evidence, unused: set[Node]) -> Iterator[Remark]:
    by_line = grouped((line_of(row.node), row.node) for row in evidence.rows if row.node in unused and row.launches)
    for nodes in by_line.values():
        yield evidence.remark(
            "unused", nodes, evidence.sum_ns(nodes), "its result is unused", "remove it",
            change=lambda graph: remove_dead_nodes(graph).after,
        )  # fmt: skip


def _in_every_turn(evidence: Evidence) -> Iterator[Remark]:
    graph = evidence.graph
    for row in evidence.rows:
        node = row.node
        loop = graph.owner.get(graph.block_of[node])
        if loop is None or loop.op != "prim::Loop" or row.calls < 2 or not row.launches or not evidence.is_pure(node):
            continue
        inside: set[Block] = set(loop.blocks)
        if any(graph.block_of.get(value) in inside and constant_of(graph, value) is NOT_CONSTANT for value in node.inputs):
            continue
        yield evidence.remark(
            "same-in-every-turn", [node], evidence.ns(node) * (1 - 1 / row.calls),
            f"the loop computes it {row.calls} times from operands that do not change in it", "compute it before the loop",
        )  # fmt: skip


# Tensors that grow piece by piece: each join copies everything joined before, which is quadratic in the number of pieces.

_MANY: Final = 4
"""The least number of joins that count as a growing tensor."""
_WASTED: Final = 0.5
"""The least part of redundant bytes that is worth a remark."""


def growing_remarks(evidence: Evidence) -> Iterator[Remark]:
    """Yields one remark for each tensor that every new piece copies again."""
    for nodes in _chains(evidence):
        last = evidence.result(nodes[-1])
        joins = sum(evidence.cost(node).calls for node in nodes)
        if last is None or joins < _MANY:
            continue
        moved = sum(evidence.cost(node).bytes for node in nodes)
        final: float = last.bytes
        if len(nodes) == 1:
            # in a loop the results are first, first + piece, first + 2 · piece, …, which add up to the bytes written
            written = evidence.cost(nodes[0]).written_bytes
            final += (written - joins * last.bytes) / (joins / 2)
        wasted = 1.0 - 2 * final / moved if moved else 0.0
        if wasted < _WASTED:
            continue
        yield evidence.remark(
            "grows-by-copies", nodes, wasted * evidence.sum_ns(nodes),
            f"{plural(joins, 'join')} move {byte_count(moved)} to make a tensor of {byte_count(final)}: each copies what was joined before",
            "keep the pieces in a list, and join them once at the end",
        )  # fmt: skip


def _chains(evidence: Evidence) -> Iterator[list[Node]]:
    """Yields chains of joins in which each extends the result of the one before, and joins that extend their own in a loop."""
    graph, chain, carried = evidence.graph, dict[Node, list[Node]](), set[Node]()
    for row in evidence.rows:
        node = row.node
        if node.op not in JOINS:
            continue
        listed = graph.producer.get(node.inputs[0])
        parts = listed.inputs if listed is not None and listed.op == "prim::ListConstruct" else ()
        grown = next((maker for value in parts if (maker := graph.producer.get(value)) in chain), None)
        joins = chain.pop(grown) if grown is not None else []
        joins.append(node)  # the list grows in place: a new one for each join would be quadratic in a long chain
        chain[node] = joins
        block = graph.block_of[node]
        if node.output in {given for given, param in zip(block.returns, block.params, strict=False) if param in parts}:
            carried.add(node)
    yield from (nodes for nodes in chain.values() if len(nodes) > 1 or nodes[0] in carried)


# Float64 in a program that computes in smaller types: one such tensor promotes every tensor it is combined with.
#
# The types of arguments and parameters show the intended precision. Where they are not float64, every float64 result
# originates in an op without a float64 operand. That is the place to change, or, if that op only creates a small tensor, the
# op that combines it with others.

_WIDE: Final = ("float64", "complex128")
_FLOATS: Final = ("float32", "float16", "bfloat16", "complex64")


def dtype_remarks(evidence: Evidence) -> Iterator[Remark]:
    """Yields one remark for each place where float64 is introduced."""
    given = {str(getattr(value.type, "dtype", "")) for value in evidence.graph.inputs}
    if given.isdisjoint(_FLOATS):  # where the inputs do not say it, the tensors in ops do
        every = (facts for row in evidence.rows for facts in (*row.cost.operands, *row.cost.results))
        if not given.isdisjoint(_WIDE) or not any(facts is not None and facts.dtype in _FLOATS for facts in every):
            return
    reached: dict[Node, set[Node]] = {}
    for row in evidence.rows:
        node = row.node
        if not (_is_wide(evidence.cost(node).results) or _is_wide(evidence.cost(node).operands)):
            continue
        wide = (maker for maker in evidence.makers(node) if maker in reached and _is_wide(evidence.cost(maker).results))
        reached[node] = set().union(*(reached[maker] for maker in wide)) or {node}
    touched = grouped((source, node) for node, sources in reached.items() for source in sources)
    alike = grouped(((source.op, line_of(source)), source) for source in touched)  # layers of a model read their own tensors in one line
    for several in alike.values():
        yield _remark(evidence, several, list(dict.fromkeys(node for source in several for node in touched[source])))


def _is_wide(facts: tuple[TensorFacts | None, ...]) -> bool:
    return any(each is not None and each.dtype in _WIDE for each in facts)


def _spared(evidence: Evidence, node: Node) -> float:
    """Half of the bytes that it moves of float64 tensors, each once."""
    cost = evidence.cost(node)
    facts = (*dict(zip(node.inputs, cost.operands, strict=False)).values(), *cost.results)
    wide = sum(each.bytes for each in facts if each is not None and each.dtype in _WIDE) * cost.calls
    return min(wide, cost.bytes) / 2  # a view moves nothing


def _remark(evidence: Evidence, sources: list[Node], nodes: list[Node]) -> Remark:
    kinds = {node: {facts.dtype for facts in evidence.cost(node).operands if facts is not None} for node in nodes}
    joins = [node for node in nodes if node not in sources and kinds[node] & set(_WIDE) and kinds[node] & set(_FLOATS)]
    source = sources[0]
    first = joins[0] if joins and evidence.ns(joins[0]) > evidence.ns(source) else source
    wide = sum(evidence.cost(node).bytes for node in nodes)
    name, known = source.op.partition("::")[2], evidence.graph.names
    inputs = (value for each in sources for value in each.inputs if value not in evidence.graph.producer)
    read = [value for value in inputs if getattr(value.type, "dtype", "") in _WIDE]
    if read and first is source:
        tensors = list(dict.fromkeys(read))
        called = listed(tensors, lambda value: f"%{known[value]}", 3)
        text = f"{name} reads {called}, which {'is' if len(tensors) == 1 else 'are'} float64"
    elif source is first:
        text = f"{name} introduces float64"
    else:
        text = f"{name} creates a float64 tensor, and {first.op.partition('::')[2]} uses it"
    narrow = wide - sum(map(partial(_spared, evidence), nodes))
    through = f": {len(nodes)} ops then move {byte_count(wide)}, and {byte_count(narrow)} in float32" if len(nodes) > 1 else ""
    advice = f"give {'it' if len(sources) == 1 else 'them'} the type of the other tensors"
    return evidence.remark("float64", nodes, 0.5 * evidence.sum_ns(nodes), f"{text}{through}", advice, first=first)
