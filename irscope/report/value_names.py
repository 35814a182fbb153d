"""One name for each value of a history, the same in every state.

The printer numbers unnamed values, so their names change after every pass. Views of a history use the names of the last
graph; a removed value keeps its earlier name, with the suffix `.old` if another value has that name now (unless that is
its copy inside a group).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from irscope.ir import Graph, Value
from irscope.transforms.history import History

__all__ = ["Renaming", "names_in"]

_NAME = re.compile(r"%([\w.$-]*\w)")


def names_in(history: History) -> dict[Value, str]:
    """The name, without `%`, of every value of every graph of a history.

    >>> import irscope as irs
    >>> f = irs.fuse(irs.parse('''graph(%x : Tensor):
    ...   %a : Tensor = aten::relu(%x)
    ...   %b : Tensor = aten::tanh(%a)
    ...   return (%b)'''))
    >>> sorted(names_in(f.history).values())
    ['a', 'b', 'b.1', 'x', 'x.1']
    """
    names = dict(history.final.names)
    owner = {name: value for value, name in names.items()}
    copied = _copied(history)
    for record in reversed(history.records):
        for value, name in record.before.names.items():
            if value in names:
                continue
            while name in owner and copied.get(owner[name]) is not value:
                name += ".old"
            names[value] = name
            owner.setdefault(name, value)
    return names


def _copied(history: History) -> dict[Value, Value]:
    """Values inside the groups of the last graph, mapped from the values they replace, whose names they may share."""
    inside = {
        node.id: node
        for group in history.final.nodes()
        if group.op.endswith("Group") and group.blocks
        for node in group.blocks[0].nodes
    }
    found: dict[Value, Value] = {}
    for record in history.records:
        for node in record.before.nodes():
            inner = inside.get(node.id)
            if inner is not None and inner is not node:
                found.update(zip(inner.inputs, node.inputs, strict=False))  # a later pass may have rewritten the group
    return found


class Renaming:
    """Rewrites sentences about one graph with the names that values have in another, by id."""

    def __init__(self, graph: Graph, names: Mapping[int, str]) -> None:
        self._name = {name: names.get(value.id, name) for value, name in graph.names.items()}

    def __call__(self, text: str) -> str:
        """The sentence with every value name replaced."""
        return _NAME.sub(lambda match: f"%{self._name.get(match[1], match[1])}", text)
