"""Checks whether a node can move next to another one without an observable difference, and which nodes must move along.

As in TorchScript, only nodes between the two move, and they keep their order. On the walk from the node towards the
point, every node that depends on a moving node, and so cannot be left behind, joins a working set. In
the end the set has to cross the point. If the node is on the wanted side already, it stays, and only its followers
have to cross.
"""

from __future__ import annotations

from collections.abc import Sequence

from irscope._base.verdict import Verdict, no, yes
from irscope.analysis.alias.query.answers import Answers
from irscope.analysis.alias.query.working_set import WorkingSet
from irscope.ir import Node

__all__ = ["can_move"]


def can_move(db: Answers, node: Node, point: Node, *, before: bool) -> Verdict:
    """Whether `node` can move directly before (or after) `point`."""
    block = db.graph.block_of[node]
    if block is not db.graph.block_of[point]:
        return no(f"{db.node_words(node)} and {db.node_words(point)} are in different blocks", node, point)
    if node is point:
        return yes("it is the same node", node)
    start, end = db.index_of(node), db.index_of(point)
    already = start < end if before else start > end
    step = 1 if start < end else -1
    if already and abs(start - end) == 1:
        return yes("it is already there", node)
    if db.accesses(node).side_effect is not None:
        return no(f"{db.node_words(node)} has a side effect and cannot move", node)
    company = WorkingSet(db, towards_end=step > 0)
    company.add(node)
    for index in range(start + step, end, step):
        if company.obstacle(block.nodes[index]) is not None:
            company.add(block.nodes[index])
    followers = company.members[1:]
    crossing = company
    if already:
        crossing = WorkingSet(db, towards_end=step > 0)
        for follower in followers:
            crossing.add(follower)
    obstacle = crossing.obstacle(point)
    if obstacle is not None:
        blocked = obstacle.later if obstacle.earlier is point else obstacle.earlier
        return no(
            f"{db.obstacle_words(obstacle)}{_dragged(db, node, blocked)}", point, blocked, *(obstacle.accesses or ())
        )
    return yes(_granted(db, node, followers, already), node, *followers)


def _dragged(db: Answers, node: Node, blocked: Node) -> str:
    """Words that link the node asked about to the blocked node, if they differ."""
    return "" if node is blocked else f", and {db.node_words(blocked)} cannot be separated from {db.node_words(node)}"


def _granted(db: Answers, node: Node, followers: Sequence[Node], already: bool) -> str:
    if not followers:
        return "no node in between depends on it, nor it on them"
    words = ", ".join(map(db.node_words, followers[:3])) + (
        f" and {len(followers) - 3} more" if len(followers) > 3 else ""
    )
    verb = "move out of the way" if already else "move along"
    return f"{words} {verb}" if len(followers) > 1 else f"{words} {verb.replace('move', 'moves', 1)}"
