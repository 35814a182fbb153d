"""Redundant copies: of tensors with another layout, and of expanded tensors.

A result is a copy if it has the operand's elements in other memory. Its users could read the operand instead, unless one
of the two is written while the other is read; the alias db decides that. Consumers that require rows without gaps (a `view`)
are named instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

from irscope._base.words import byte_count
from irscope.ir import Node
from irscope.runtime.profile.advice.changes import without_copies
from irscope.runtime.profile.advice.evidence import Evidence
from irscope.runtime.profile.advice.remark import Remark

__all__ = ["copy_remarks"]

_COPIES: Final = frozenset(
    f"aten::{name}"
    for name in "contiguous clone reshape flatten to _to_copy expand_copy alias_copy permute_copy t_copy transpose_copy "
    "view_copy squeeze_copy unsqueeze_copy".split()
)
_REPEATS: Final = frozenset({"aten::repeat", "aten::repeat_interleave", "aten::tile", "aten::expand_copy"})
_WANTS_ROWS: Final = ("aten::view", "aten::view_as", "aten::as_strided")


def copy_remarks(evidence: Evidence) -> Iterator[Remark]:
    """Yields one remark for each line that copies."""
    plain: dict[object, list[Node]] = {}
    expanded: dict[object, list[Node]] = {}
    for row in evidence.rows:
        node = row.node
        if _is_expanded_copy(evidence, node):
            expanded.setdefault(_key(node), []).append(node)
        elif _is_copy(evidence, node):
            plain.setdefault(_key(node), []).append(node)
    yield from (_expanded(evidence, nodes) for nodes in expanded.values())
    yield from (_plain(evidence, nodes) for nodes in plain.values())


def _key(node: Node) -> object:
    return (node.location.file, node.location.line) if node.location is not None else (node.op, node.scope)


def _is_copy(evidence: Evidence, node: Node) -> bool:
    given, made = evidence.operand(node), evidence.result(node)
    if node.op not in _COPIES or given is None or made is None or evidence.cost(node).shares_memory:
        return False
    return given.dtype == made.dtype and given.full_bytes == made.full_bytes


def _is_expanded_copy(evidence: Evidence, node: Node) -> bool:
    given, made = evidence.operand(node), evidence.result(node)
    if given is None or made is None or evidence.cost(node).shares_memory:
        return False
    return (node.op in _REPEATS or _is_copy(evidence, node)) and made.bytes >= 2 * given.bytes


def _expanded(evidence: Evidence, nodes: list[Node]) -> Remark:
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


def _plain(evidence: Evidence, nodes: list[Node]) -> Remark:
    moved = sum(evidence.cost(node).bytes for node in nodes)
    given, made = evidence.operand(nodes[0]), evidence.result(nodes[0])
    assert given is not None and made is not None, "both are known for a copy"
    count = sum(evidence.cost(node).calls for node in nodes)
    text = f"{count} copies move {byte_count(moved)}" if count > 1 else f"a copy moves {byte_count(moved)}"
    strides = "" if given.strides == made.strides else f" from strides {list(given.strides)} to {list(made.strides)}"
    makers = [maker for node in nodes for maker in evidence.makers(node) if evidence.category(maker) == "view"]
    views = f", which {makers[0].op.partition('::')[2]} made" if makers and strides else ""
    wanting = [user for node in nodes for user in evidence.users(node) if user.op in _WANTS_ROWS]
    written = [node for node in nodes if not _may_be_shared(evidence, node)]
    if written:
        advice, certainty = "it keeps apart memory that is written and read: without the write it can be removed", 0.3
    elif wanting:
        advice, certainty = (
            f"{wanting[0].op.partition('::')[2]} requires rows without gaps: reshape the original tensor instead",
            0.7,
        )
    elif not any(True for node in nodes for _ in evidence.users(node)):
        advice, certainty = "only the caller reads it: return the original tensor, unless these strides are needed", 1.0
    else:
        advice, certainty = "its users can read the original tensor directly", 1.0
    change = partial(without_copies, copies=nodes) if _is_replaceable(evidence, nodes) else None
    return evidence.remark(
        "copy", nodes, evidence.sum_ns(nodes), f"{text}{strides}{views}", advice, certainty=certainty, change=change
    )


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
