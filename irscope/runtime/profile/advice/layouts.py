"""Unfavourable combinations of operands: broadcasts of small tensors to a large one, and mixed row and column order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from irscope._base.words import byte_count
from irscope.ir import Node
from irscope.runtime.profile.advice.evidence import Evidence
from irscope.runtime.profile.advice.remark import Remark
from irscope.runtime.profile.counting import TensorFacts
from irscope.runtime.profile.rows import NodeRow

__all__ = ["layout_remarks"]

_EXPANDS: Final = 4
"""The least factor by which a broadcast's result exceeds its operands together that is worth a remark."""
_LEAST_BYTES: Final = 1 << 18
_TRANSPOSES: Final = frozenset(
    f"aten::{name}"
    for name in "t transpose permute mT mH T H numpy_T swapaxes swapdims movedim moveaxis adjoint".split()
)
_SLOW: Final = 0.6
"""The share of a copy's speed below which strides are a likely cause."""


def layout_remarks(evidence: Evidence) -> Iterator[Remark]:
    """Yields remarks on broadcasts that expand, and on transposed operands."""
    for row in evidence.rows:
        if row.category in ("pointwise", "reduction", "normalization") and row.launches:
            yield from _expanding(evidence, row)
            yield from _crossing(evidence, row)


def _expanding(evidence: Evidence, row: NodeRow) -> Iterator[Remark]:
    made = evidence.result(row.node)
    given = [facts for facts in row.cost.operands if facts is not None]
    small = sum(facts.bytes for facts in given)
    if row.category != "pointwise" or made is None or len(given) < 2:
        return
    if made.bytes < _LEAST_BYTES or made.bytes < _EXPANDS * small:
        return
    affected = [row.node, *_downstream(evidence, row.node, made.elements // 2)]
    ends = [node for node in affected if evidence.category(node) == "reduction"]
    name = row.node.op.partition("::")[2]
    because = f"{name} expands operands of {byte_count(small)} to {byte_count(made.bytes)}"
    through = f", and {len(affected) - 1} more ops read it" if len(affected) > 1 else ""
    product = False
    if ends:
        least = evidence.copy_ns(small + evidence.cost(ends[0]).written_bytes) * row.calls
        product = name == "mul" and ends[0] in set(evidence.users(row.node))
        advice = (
            "a matrix product does it without the large tensor"
            if product
            else "reduce first, or fuse it with the reduction"
        )
        certainty = 1.0
    else:
        least, certainty = evidence.sum_ns(affected) * 0.3, 0.6
        advice = "check that both shapes are intended; compute on the operands before they are broadcast"
    gain = evidence.sum_ns(affected) - least
    measured = evidence.saved_by_fusing(row.node, ends[0]) if ends and not product else None
    if measured is not None:
        gain = min(gain, measured)
    yield evidence.remark(
        "expanding-broadcast", affected, gain, because + through, advice, certainty=certainty, first=row.node
    )


def _downstream(evidence: Evidence, start: Node, least: int) -> list[Node]:
    """Returns the nodes after one that read at least this many elements derived from it."""
    found: list[Node] = []
    seen, pending = {start}, [start]
    while pending:
        for user in evidence.users(pending.pop()):
            if user in seen or user not in evidence.row_of:
                continue
            seen.add(user)
            operands = [facts.elements for facts in evidence.cost(user).operands if facts is not None]
            if max(operands, default=0) >= least:
                found.append(user)
                pending.append(user)
    return found


def _crossing(evidence: Evidence, row: NodeRow) -> Iterator[Remark]:
    """Yields a remark on operands transposed against the others, where the op is far below the speed of a copy."""
    given = [facts for facts in row.cost.operands if facts is not None and facts.bytes * _EXPANDS >= _largest(row)]
    made = evidence.result(row.node)
    every = [*given, made] if made is not None and made.bytes * _EXPANDS >= _largest(row) else given
    took = row.self_time.median
    if _largest(row) < _LEAST_BYTES or row.copy_ns > _SLOW * took:
        return
    orders = [_full_order(facts) for facts in every if len(facts.order) > 1]
    is_reduced = row.category != "pointwise" and any(_lies_across(facts) for facts in given)
    if all(_agree(a, b) for a in orders for b in orders) and not is_reduced:  # an op has a handful of operands
        return
    across = [place for place, facts in enumerate(row.cost.operands) if facts is not None and _lies_across(facts)]
    views = [view for place in across for view in _views_before(evidence, row.node, place)]
    text = f"{len(across) or 1} of its operands {'are' if len(across) > 1 else 'is'} transposed against the others"
    strides = ", ".join(str(list(row.cost.operands[p].strides)) for p in across[:2])  # type: ignore[union-attr]
    because = f"{text} (strides {strides}): it runs at {row.copy_ns / took:.0%} of a copy" if took else text
    yield evidence.remark(
        "transposed-operand", [row.node, *views], took - row.copy_ns / 0.8, because,
        "keep all in one order: transpose where the tensor is created, or compute the transposed result", first=row.node,
    )  # fmt: skip


def _largest(row: NodeRow) -> int:
    return max((facts.bytes for facts in (*row.cost.operands, *row.cost.results) if facts is not None), default=0)


def _full_order(facts: TensorFacts) -> tuple[int, ...]:
    """Returns the order of the dimensions, counted from the last, so that a broadcast operand compares."""
    return tuple(dim - len(facts.shape) for dim in facts.order)


def _agree(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    """Checks whether two orders agree on the dimensions that both have."""
    return [dim for dim in a if dim in b] == [dim for dim in b if dim in a]


def _lies_across(facts: TensorFacts) -> bool:
    return list(facts.order) != sorted(facts.order)


def _views_before(evidence: Evidence, node: Node, place: int) -> Iterator[Node]:
    """Yields the view that transposed an operand, if one did."""
    maker = evidence.graph.producer.get(node.inputs[place]) if place < len(node.inputs) else None
    while maker is not None and evidence.category(maker) == "view" and maker in evidence.row_of:
        if maker.op in _TRANSPOSES:
            yield maker
            return
        maker = next(evidence.makers(maker), None)
