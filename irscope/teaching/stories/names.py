"""Names of records and boxes that outlast a process: each process has new ids, but a program keeps its printed names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from irscope._base.concurrency.cached import cached_property
from irscope.errors import UnknownName
from irscope.ir import Graph, Node, Value
from irscope.report.boxes import BoxTree

__all__ = ["Names"]

_NODE = "node "


class Names:
    """Maps ids of one graph to names, and back.

    `%p.1` is a value, `node %p.1` the node that produces it, `aten::copy_#0` the first node of that op;
    `box backbone/stage1` is a box without a record, with `#1` for the second of that path.

    >>> import irscope as irs
    >>> g = irs.parse("graph(%x : Tensor):\\n  %y : Tensor = aten::relu(%x)\\n  return (%y)")
    >>> names = Names(g)
    >>> names.of(g.node("y").id), names.id("node %y") == g.node("y").id
    ('node %y', True)
    """

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    @cached_property
    def _by_id(self) -> Mapping[int, str]:
        found = {value.id: f"%{name}" for value, name in self._graph.names.items()}
        seen: Counter[str] = Counter()
        for node in self._graph.nodes():
            name = f"{_NODE}%{self._graph.names[node.outputs[0]]}" if node.outputs else f"{node.op}#{seen[node.op]}"
            found[node.id] = name
            seen[node.op] += 1
        return found | self._boxes

    @cached_property
    def _boxes(self) -> dict[int, str]:
        """Names of boxes without a record: their labels from the outside in."""
        tree = BoxTree(self._graph)
        paths: dict[int, str] = {}
        found: dict[int, str] = {}
        seen: Counter[str] = Counter()
        for number, (id, subject) in enumerate(zip(tree.ids, tree.subjects, strict=True)):
            if isinstance(subject, Value | Node):
                continue
            around = paths.get(int(tree.parent[number]), "")
            paths[number] = path = (
                f"{around}/{tree.box(number)['label']}" if around else f"box {tree.box(number)['label']}"
            )
            found[id] = f"{path}#{seen[path]}" if seen[path] else path
            seen[path] += 1
        return found

    @cached_property
    def _ids(self) -> Mapping[str, int]:
        return {name: id for id, name in self._by_id.items()}

    def of(self, id: int) -> str:
        """Returns the name of a record or a box. Raises UnknownName for an id of another program."""
        if id not in self._by_id:
            raise UnknownName(f"nothing in {self._graph.name!r} has the id {id}", hint="ids belong to one program")
        return self._by_id[id]

    def id(self, name: str) -> int | None:
        """Returns the id of a name; None if the program has nothing of that name."""
        found = self._ids.get(name)
        if (found is None and name.startswith(_NODE)) or "::" in name:
            try:
                return self._graph.node(name.removeprefix(_NODE).lstrip("%")).id
            except UnknownName:
                return None
        return found
