"""Lower bounds of a program's peak if results were written in place of operands, or if its nodes ran in another order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heappop, heappush

from irscope.analysis.dependence import dependences
from irscope.analysis.memory.live_ranges import Buffer, Lifetimes
from irscope.analysis.memory.placement import live_sums
from irscope.ir import Node, TensorType, Value, has_kernel
from irscope.ops.registry import category_of

__all__ = ["in_place_of", "reordered_bound"]


def in_place_of(lives: Lifetimes) -> int:
    """The most bytes live at one moment if elementwise results took over an operand's memory."""
    ends = {buffer: buffer.death for buffer in lives.buffers}
    for buffer in lives.buffers:
        if buffer.is_result or buffer.is_carried or not _is_elementwise(buffer.maker):
            continue
        for operand in dict.fromkeys(buffer.maker.inputs):
            taken = lives.buffer_of(operand)
            if (
                taken is not None
                and ends[taken] == buffer.birth > taken.birth
                and _alike(operand, buffer.value, taken, buffer)
            ):
                ends[taken] -= 1
                break
    return int(live_sums([(b.bytes, b.birth, ends[b]) for b in lives.buffers], len(lives.moments) + 1).max(initial=0))


def _is_elementwise(node: Node) -> bool:
    nodes = node.blocks[0].nodes if has_kernel(node) else (node,)
    return all(category_of(inner) in ("pointwise", "scalar", "control") for inner in nodes)


def _alike(operand: Value, result: Value, taken: Buffer, made: Buffer) -> bool:
    """Whether each element of the result can take the place of the operand's element, with equal sizes of memory."""
    a, b = operand.type, result.type
    same = isinstance(a, TensorType) and isinstance(b, TensorType) and a.shape == b.shape and a.strides == b.strides
    return same and taken.bytes == made.bytes and not taken.is_carried


def reordered_bound(lives: Lifetimes) -> int:
    """The most bytes live at one moment with the nodes of the top block in another order.

    Among the nodes that may come next, the one after which the fewest bytes are live is chosen, and the earlier of two equal
    ones. A node counts with everything in its blocks, and memories created in them as live throughout.
    """
    graph = lives.graph
    nodes = graph.body.nodes
    ties = dependences(graph)
    index = {node: place for place, node in enumerate(nodes)}
    top = _top_of(lives)
    made: list[list[Buffer]] = [[] for _ in nodes]
    for buffer in lives.buffers:
        made[top[buffer.birth]].append(buffer)
    used = [_used(lives, node) for node in nodes]
    left: dict[Buffer, int] = {}
    for buffers in used:
        for buffer in buffers:
            left[buffer] = left.get(buffer, 0) + 1
    users: dict[Buffer, list[int]] = {}
    for place, buffers in enumerate(used):
        for buffer in buffers:
            users.setdefault(buffer, []).append(place)
    waiting = [len(before) for before in ties.before]
    ready: list[tuple[int, int]] = []

    def cost(place: int) -> int:
        freed = sum(buffer.bytes for buffer in used[place] if left[buffer] == 1 and not buffer.is_result)
        return sum(buffer.bytes for buffer in made[place]) - freed

    for place, count in enumerate(waiting):
        if not count:
            heappush(ready, (cost(place), place))
    done, now, peak = set[int](), 0, 0
    while ready:
        old_cost, place = heappop(ready)
        if place in done or old_cost != cost(place):  # it was pushed again with its current cost
            continue
        done.add(place)
        now += sum(buffer.bytes for buffer in made[place])
        peak = max(peak, now)
        for buffer in dict.fromkeys((*used[place], *made[place])):
            left[buffer] = left.get(buffer, 0) - (buffer in used[place])
            if left[buffer] <= 0 and not buffer.is_result:
                now -= buffer.bytes
            elif left[buffer] == 1:
                for user in users[buffer]:
                    if user not in done and not waiting[user]:
                        heappush(ready, (cost(user), user))
        for later in ties.successors[nodes[place]]:
            waiting[index[later]] -= 1
            if not waiting[index[later]]:
                heappush(ready, (cost(index[later]), index[later]))
    return peak


def _top_of(lives: Lifetimes) -> Sequence[int]:
    """For each moment, the position of its node, or of the node around it, in the top block."""
    place, found = 0, []
    nodes = lives.graph.body.nodes
    seen = 0
    for moment in lives.moments:
        if seen < len(nodes) and moment is nodes[seen]:
            place, seen = seen, seen + 1
        found.append(place)
    return [*found, place]


def _used(lives: Lifetimes, node: Node) -> dict[Buffer, None]:
    """The memories that a node, with everything in its blocks, accesses by names that can be no other memory."""
    found = (lives.buffer_of(value) for value in _names(node))
    return {buffer: None for buffer in found if buffer is not None}


def _names(node: Node) -> Iterator[Value]:
    todo = [node]
    while todo:
        here = todo.pop()
        yield from here.inputs
        if not has_kernel(here):
            for block in here.blocks:
                yield from block.returns
                todo.extend(block.nodes)
