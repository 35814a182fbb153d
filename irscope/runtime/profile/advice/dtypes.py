"""Float64 in a program that computes in smaller types: one such tensor promotes every tensor it is combined with.

The types of arguments and parameters show the intended precision. Where they are not float64, every float64 result
originates in an op without a float64 operand. That is the place to change, or, if that op only creates a small tensor, the
op that combines it with others.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from irscope.ir import Node
from irscope.runtime.profile.advice.evidence import Evidence
from irscope.runtime.profile.advice.remark import Remark
from irscope.runtime.profile.counting import TensorFacts

__all__ = ["dtype_remarks"]

_WIDE: Final = ("float64", "complex128")
_FLOATS: Final = ("float32", "float16", "bfloat16", "complex64")


def dtype_remarks(evidence: Evidence) -> Iterator[Remark]:
    """Yields one remark for each place where float64 is introduced."""
    if not _computes_in_less(evidence):
        return
    reached: dict[Node, set[Node]] = {}
    for row in evidence.rows:
        node = row.node
        if not (_is_wide(evidence.cost(node).results) or _is_wide(evidence.cost(node).operands)):
            continue
        sources = set().union(*(reached.get(maker, set()) for maker in evidence.makers(node)))
        if not sources:
            sources = {node}
        reached[node] = sources
    touched: dict[Node, list[Node]] = {}
    for node, sources in reached.items():
        for source in sources:
            touched.setdefault(source, []).append(node)
    for source, nodes in touched.items():
        yield _remark(evidence, source, nodes)


def _computes_in_less(evidence: Evidence) -> bool:
    """Checks whether the inputs, or else the tensors in ops, have a smaller floating-point type."""
    kinds = [
        facts.dtype for row in evidence.rows for facts in (*row.cost.operands, *row.cost.results) if facts is not None
    ]
    given = {str(getattr(value.type, "dtype", "")) for value in evidence.graph.inputs}
    if given & set(_FLOATS):
        return True
    return not given & set(_WIDE) and sum(kind in _FLOATS for kind in kinds) > 0


def _is_wide(facts: tuple[TensorFacts | None, ...]) -> bool:
    return any(each is not None and each.dtype in _WIDE for each in facts)


def _remark(evidence: Evidence, source: Node, nodes: list[Node]) -> Remark:
    joins = [node for node in nodes if node is not source and _joins(evidence, node)]
    first = joins[0] if joins and evidence.ns(joins[0]) > evidence.ns(source) else source
    wide = sum(evidence.cost(node).bytes for node in nodes)
    name = source.op.partition("::")[2]
    text = (
        f"{name} introduces float64"
        if source is first
        else f"{name} creates a float64 tensor, and {first.op.partition('::')[2]} uses it"
    )
    through = f": {len(nodes)} ops then move {wide / 1e6:.3g} MB, twice as much as in float32" if len(nodes) > 1 else ""
    gain = 0.5 * evidence.sum_ns(nodes)
    return evidence.remark(
        "float64", nodes, gain, f"{text}{through}", "give it the type of the other tensors", first=first
    )


def _joins(evidence: Evidence, node: Node) -> bool:
    """Checks whether a node has both a float64 operand and one of a smaller type."""
    kinds = {facts.dtype for facts in evidence.cost(node).operands if facts is not None}
    return bool(kinds & set(_WIDE)) and bool(kinds & set(_FLOATS))
