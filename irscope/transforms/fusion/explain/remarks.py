"""The remarks of a fusion pass: one per group, and one per missed opportunity."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from irscope.ir import Node, Value
from irscope.ops.registry import lookup
from irscope.ops.view_steps import Num, byte_words, is_unknown
from irscope.transforms.base import Remark
from irscope.transforms.fusion.explain.why_not import with_cause
from irscope.transforms.fusion.outline import Grouped
from irscope.transforms.fusion.policy import BlockPlan, explain_path
from irscope.transforms.grouping import Refusal

__all__ = ["remarks_of"]

_NOT_A_MISS = frozenset({"not-pointwise", "view", "cycle", "random", "side-effect"})
"""Rules whose refusals are not missed opportunities, as fusion is impossible there."""


def remarks_of(plans: Sequence[BlockPlan], grouped: Grouped) -> tuple[Remark, ...]:
    """Returns the passed remarks, then the missed ones, each in program order of blocks."""
    passed = [remark for plan in plans for remark in _passed(plan, grouped)]
    missed = [remark for plan in plans for remark in _missed(plan, grouped)]
    return (*passed, *missed)


def _passed(plan: BlockPlan, grouped: Grouped) -> Iterator[Remark]:
    saved: dict[Node, Num] = {}
    for merge in plan.merges:
        group = grouped.group_of.get(plan.block.nodes[merge.consumer])
        if group is not None:
            saved[group] = saved.get(group, 0) + merge.bytes_saved
    for group, bytes_saved in saved.items():
        count = sum(node.op != "prim::Constant" for node in group.blocks[0].nodes)
        amount = f", which saves {byte_words(bytes_saved)} of memory traffic" if bytes_saved != 0 and not is_unknown(bytes_saved) else ""
        yield Remark("passed", group.attrs["kind"], group, f"{count} nodes became one kernel{amount}", group.outputs)


def _missed(plan: BlockPlan, grouped: Grouped) -> Iterator[Remark]:
    """Yields one remark per obstacle, however many pairs it keeps apart: it is one thing to change."""
    found: dict[object, tuple[Refusal, Value | Node, int]] = {}
    for key, refusal, subject in (*_apart(plan, grouped), *_unfit(plan)):
        known = found.get(key)
        found[key] = (refusal, subject, 1) if known is None else (*known[:2], known[2] + 1)
    for refusal, subject, count in found.values():
        more = f" (×{count})" if count > 1 else ""
        yield Remark("missed", refusal.rule, subject, f"{refusal.because}{more}", refusal.evidence)


def _apart(plan: BlockPlan, grouped: Grouped) -> Iterator[tuple[object, Refusal, Value | Node]]:
    """Yields the producers that stayed apart from their users, keyed by the obstacle to remove."""
    nodes = plan.block.nodes
    for (producer, consumer), refusal in plan.refusals.items():
        if plan.partition.find(producer) == plan.partition.find(consumer):
            continue
        found = refusal
        if refusal.rule == "cycle":
            if plan.ties.by_data_alone:
                continue
            found = explain_path(plan, tuple(node for node in refusal.evidence if isinstance(node, Node)))
        if found.rule in _NOT_A_MISS:
            continue
        if found.rule in ("argument-limit", "size-limit"):
            key: object = grouped.group_of.get(nodes[consumer], nodes[consumer])
        else:
            key = found.evidence[:1] if found.rule != "blocked-by-write" else frozenset(found.evidence[:2])
        yield (found.rule, key), found, nodes[consumer]


def _unfit(plan: BlockPlan) -> Iterator[tuple[object, Refusal, Value | Node]]:
    """Yields the nodes next to fusible ones that are ineligible for a reason which the program could remove."""
    if all(plan.fusible):
        return
    producer_of = {value: index for index, node in enumerate(plan.block.nodes) for value in node.outputs}
    beside = _beside_fusible(plan, producer_of)
    for index, node in enumerate(plan.block.nodes):
        refusal = plan.rules.refusal(node) if not plan.fusible[index] else None
        if refusal is None or refusal.rule in _NOT_A_MISS or index not in beside:
            continue
        if refusal.rule != "in-place" or _has_fusible_variant(node):
            found = with_cause(plan.rules.graph, node, refusal)
            cause = found.because.removeprefix(refusal.because)
            yield (refusal.rule, node.op, cause), found, node


def _beside_fusible(plan: BlockPlan, producer_of: dict[Value, int]) -> set[int]:
    """The nodes that use, or are used by, a fusible node of the block."""
    beside: set[int] = set()
    for index, node in enumerate(plan.block.nodes):
        for value in node.inputs:
            source = producer_of.get(value)
            if source is None:
                continue
            if plan.fusible[index]:
                beside.add(source)
            if plan.fusible[source]:
                beside.add(index)
    return beside


def _has_fusible_variant(node: Node) -> bool:
    """Whether the op's functional variant could be part of a kernel."""
    variant = lookup(node.op.removesuffix("_")) if node.op.endswith("_") else None
    return variant is not None and variant.expression is not None
