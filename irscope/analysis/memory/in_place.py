"""Finds the results that can be written in place of an operand, so that two memories become one.

`offers` says whether a kernel *can* write a result over an operand. This module checks whether it *may*: the memory
of the operand must be known (one that a node of the program allocates, by the alias db and not only by declared layouts), the
kernel must be its last use, neither the caller nor a later round of a loop may hold it, it must be
as large as the result, and no other operand of the kernel may be in it. Then the reuse is unobservable: the live range of the one
memory ends where that of the other begins, at the kernel, which reads each element before it writes it.

"In place of" is a relation of its own, beside "is a view of" and "same place by plan": it merges two live ranges.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from irscope.analysis.memory.live_ranges import Buffer, Lifetimes
from irscope.analysis.per_graph import alias_db_of
from irscope.ir import Node, TensorType, Value

__all__ = ["Offers", "written_in_place"]

Offers = Callable[[Node, int], Sequence[int]]
"""Maps a node and the position of a result to the positions of the operands over which the node can write that result."""


def written_in_place(lives: Lifetimes, offers: Offers) -> tuple[Lifetimes, Mapping[Value, Value]]:
    """The live ranges with merged memories joined, and the operand of each result written in place; one pass."""
    db = alias_db_of(lives.graph)
    joined: dict[Buffer, Buffer] = {}
    """Each joined memory as it is now, by the first memory in it."""
    heads: dict[Buffer, Buffer] = {}
    """For each later memory of a joined one, the first memory in it."""
    found: dict[Value, Value] = {}
    for made in sorted(lives.buffers, key=lambda buffer: buffer.birth):
        node = made.maker
        if made.is_result or made.is_carried or made.birth >= len(lives.moments) or lives.moments[made.birth] is not node:
            continue
        taken_by_others = {found[value] for value in node.outputs if value in found}
        for position in offers(node, node.outputs.index(made.value)):
            operand = node.inputs[position]
            first = lives.buffer_of(operand)
            if first is None or operand in taken_by_others:
                continue
            head = heads.get(first, first)
            held = joined.get(head, head)
            if not _is_free(held, made) or any(
                other is not operand and isinstance(other.type, TensorType) and db.may_alias(other, operand)
                for other in node.inputs
            ):
                continue
            joined[head] = replace(held, death=made.death)
            heads[made] = head
            found[made.value] = operand
            break
    if not found:
        return lives, {}
    now = {buffer: joined[heads.get(buffer, buffer)] for buffer in lives.buffers if buffer in heads or buffer in joined}
    return lives.with_joined(now, {buffer.value: now[buffer] for buffer in heads}), found


def _is_free(held: Buffer, made: Buffer) -> bool:
    """Whether a memory is last used where the other is created, and not visible elsewhere afterwards."""
    return (
        held.death == made.birth > held.birth
        and held.bytes == made.bytes
        and not (held.is_result or held.is_carried or held.by_layout)
    )
