"""The dependences of a block read the other way, and to the end."""

from irscope.analysis.dependence import Dependences
from irscope.ir import Node


def successors(ties: Dependences) -> dict[Node, list[Node]]:
    """The later nodes that are tied to each node."""
    found: dict[Node, list[Node]] = {node: [] for node in ties.block.nodes}
    for later, earlier in ties.predecessors.items():
        for tie in earlier:
            found[tie.node].append(later)
    return found


def waits_for(ties: Dependences, node: Node) -> set[Node]:
    """The nodes that must come before a node, directly or through others."""
    found, todo = set[Node](), [node]
    while todo:
        fresh = [tie.node for tie in ties.predecessors[todo.pop()] if tie.node not in found]
        found.update(fresh)
        todo.extend(fresh)
    return found
