"""Redundant work: the same result in each call, in each turn of a loop, twice in one call, or unused.

A node's result is the same in each call if it is pure and depends on no argument; parameters that are never written do
not count as arguments. All nodes of one connected stretch are one remark. The other cases follow from equal operands and
from uses.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from irscope._base.words import byte_count, plural
from irscope.ir import NOT_CONSTANT, Block, Graph, Node, TensorType, Value
from irscope.runtime.profile.advice.changes import known_once
from irscope.runtime.profile.advice.evidence import Evidence
from irscope.runtime.profile.advice.remark import Remark
from irscope.transforms.cleanup import remove_dead_nodes
from irscope.transforms.pipeline import Pipeline

__all__ = ["repeated_remarks"]


def repeated_remarks(evidence: Evidence) -> Iterator[Remark]:
    """Yields remarks on work that need not be repeated."""
    known = _same_in_every_call(evidence)
    yield from _rebuilt(evidence, known)
    yield from _twice(evidence, known)
    yield from _unused(evidence)
    yield from _in_every_turn(evidence)


# --- in each call ---------------------------------------------------------------------------------------------------


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
        top = [node for node in nodes if _leaves(evidence, node, known)]
        made = sum(evidence.cost(node).written_bytes for node in nodes)
        reads_parameters = any(value in evidence.graph.bound for node in nodes for value in node.inputs)
        text = "only parameters affect the result" if reads_parameters else "no argument affects the result"
        values = [v for node in top for v in node.outputs if isinstance(v.type, TensorType)]
        can_change = bool(values) and evidence.readings.device == "cpu" and not _inside_blocks(evidence.graph, nodes)
        yield evidence.remark(
            "rebuilt-constant", nodes, evidence.sum_ns(nodes),
            f"{plural(len(nodes), 'op')} write{'s' if len(nodes) == 1 else ''} {byte_count(made)} in every call, though {text}",
            "compute it once and keep it: a buffer of the model, or a constant outside of the function",
            change=partial(known_once, values=values) if can_change else None,
        )  # fmt: skip


def _leaves(evidence: Evidence, node: Node, known: set[Node]) -> bool:
    return evidence.is_returned(node) or any(user not in known for user in evidence.users(node))


def _inside_blocks(graph: Graph, nodes: list[Node]) -> bool:
    return any(graph.block_of[node] is not graph.body for node in nodes)


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
    found: dict[Node, list[Node]] = {}
    for row in evidence.rows:
        if row.node in known:
            found.setdefault(find(row.node), []).append(row.node)
    return list(found.values())


# --- twice, or unused -----------------------------------------------------------------------------------------------


def _twice(evidence: Evidence, known: set[Node]) -> Iterator[Remark]:
    seen: dict[object, Node] = {}
    same: dict[Value, Value] = {}
    again: set[Node] = set()
    for row in evidence.rows:
        node = row.node
        if node in known or not evidence.is_pure(node):
            continue
        operands = tuple(_operand_key(evidence, same.get(value, value)) for value in node.inputs)
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
            f"{name} of the same operands was computed before{behind}", "keep the first result", change=_without_repeats,
            first=nodes[0],
        )  # fmt: skip


def _without_repeats(graph: Graph) -> Graph:
    return Pipeline("cse,dce")(graph).graph


def _operand_key(evidence: Evidence, value: Value) -> object:
    held = evidence.constant(value)
    return value if held is NOT_CONSTANT else repr(held)


def _unused(evidence: Evidence) -> Iterator[Remark]:
    kept = {node.id for node in remove_dead_nodes(evidence.graph).after.nodes()}
    dead = [row.node for row in evidence.rows if row.node.id not in kept and row.launches]
    by_line: dict[object, list[Node]] = {}
    for node in dead:
        by_line.setdefault(node.location and (node.location.file, node.location.line), []).append(node)
    for nodes in by_line.values():
        yield evidence.remark(
            "unused", nodes, evidence.sum_ns(nodes), "its result is unused", "remove it",
            change=lambda graph: remove_dead_nodes(graph).after,
        )  # fmt: skip


# --- in each turn of a loop -----------------------------------------------------------------------------------------


def _in_every_turn(evidence: Evidence) -> Iterator[Remark]:
    graph = evidence.graph
    for row in evidence.rows:
        node = row.node
        loop = graph.owner.get(graph.block_of[node])
        if loop is None or loop.op != "prim::Loop" or row.calls < 2 or not row.launches or not evidence.is_pure(node):
            continue
        inside: set[Block] = set(loop.blocks)
        if any(graph.block_of.get(value) in inside and not evidence.is_constant(value) for value in node.inputs):
            continue
        yield evidence.remark(
            "same-in-every-turn", [node], evidence.ns(node) * (1 - 1 / row.calls),
            f"the loop computes it {row.calls} times from operands that do not change in it", "compute it before the loop",
        )  # fmt: skip
