"""Answers a page's requests about a program too large to be sent: lines, levels of boxes, and where records are.

The cost of an answer is proportional to its size. The box tree and the text are built once, at the first request.
"""

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from irscope._base.nested import grouped
from irscope._base.words import shortened
from irscope.errors import IrscopeError, UnknownName
from irscope.ir import Graph, Node, Value
from irscope.ir.text import print_first_lines, print_node
from irscope.ops.registry import category_of, effect_of
from irscope.report.box_tree import BoxTree, Levels, heading_lines, line_count, writes_memory
from irscope.report.panes import repeat_beside, repeat_view
from irscope.report.panes.program_view import opened_at_first
from irscope.report.queries import Queries
from irscope.report.view_models import BesideView, Box, Edge, Found, GraphView, Level, Place, RepeatView, TextView
from irscope.report.words import records_of, short_op

PAGE = 240  # Lines sent with the first view.
_MOST_LINES = 2000
_MOST_PLACES = 4000
_MOST_LEVELS = 200
_MOST_REPEATS = 24
_MOST_SHOWN = 40
_MOST_IDS = 2000
_LINES_BEFORE = 4
_NAME = re.compile(r"%([\w.$-]*\w)")


class ProgramIndex:
    """The pages of lines and boxes of one graph."""

    def __init__(self, graph: Graph, queries: Queries | None = None, names: Mapping[Value, str] | None = None) -> None:
        """`names` are the names of values in answers, if not those of the graph."""
        self._names = names or graph.names
        self._graph = graph
        self._queries = queries or Queries(graph)

    @cached_property
    def tree(self) -> BoxTree:
        return BoxTree(self._graph)

    @cached_property
    def _levels(self) -> Levels:
        return Levels(self.tree)

    @cached_property
    def _node_lines(self) -> list[int]:
        return list(self._queries.line_of.values())

    def first_text(self) -> TextView:
        """The lines a page shows first: where the nodes begin."""
        first = max(0, heading_lines(self._graph) - _LINES_BEFORE)
        return self._page(first, print_first_lines(self._graph, first + PAGE)[first:])

    def lines(self, first: int, count: int) -> TextView:
        """A range of lines, with the records behind the names in them."""
        first = max(0, first)
        return self._page(first, self._queries.lines[first : first + min(count, _MOST_LINES)])

    def _page(self, first: int, printed: Sequence[str]) -> TextView:
        index = self._queries
        lines = list(map(shortened, printed))
        begin, end = (bisect_left(self._node_lines, line) for line in (first, first + len(lines)))
        here = index.nodes[begin:end]
        nodes = [0] * len(lines)
        for line, node in zip(self._node_lines[begin:end], here, strict=True):
            nodes[line - first] = node.id
        numbers = ((node, self._around(node, self.tree.number.get(node.id, -1))) for node in here)
        named = ((name, index.value_of.get(name)) for line in lines for name in _NAME.findall(line))
        return TextView(
            lines=lines, nodes=nodes, names={name: value.id for name, value in named if value is not None},
            locations={node.id: shortened(str(node.location)) for node in here if node.location is not None},
            first=first, total=line_count(self._graph, index.nodes),
            paths={node.id: self._path(number) for node, number in numbers if number >= 0},
        )  # fmt: skip

    def first_graph(self, hottest: int = 0) -> GraphView:
        """The levels that are initially open, the boxes around the `hottest` node among them."""
        opened = [-1, *opened_at_first(self.tree, hottest)]
        boxes: list[Box] = []
        edges: list[Edge] = []
        for around in sorted(opened):
            boxes += self._boxes(around)
            edges += self._levels.edges_in(around)
        shown = {self.tree.ids[around] for around in opened if around >= 0}
        closed = [box["id"] for box in boxes if box.get("holds") and box["id"] not in shown]
        return GraphView(boxes=boxes, edges=edges, closed=closed, kinds=self._kinds(boxes))

    def _kinds(self, shown: Sequence[Box]) -> list[str]:
        """The op categories that have boxes, determined by one node per op: all nodes of an op with tensors are alike, but for copies
        where a view was possible."""
        boxes = zip(self.tree.subjects, self.tree.kinds, strict=True)
        by_op = grouped((subject.op, subject) for subject, kind in boxes if kind == "op" and isinstance(subject, Node))
        found: dict[str, None] = dict.fromkeys(category_of(nodes[0]) for nodes in by_op.values())
        if any(box["category"] == "memory" for box in shown):
            found["memory"] = None
        writing = (nodes for nodes in by_op.values() if effect_of(nodes[0]) == "in-place")
        if any(writes_memory(self._graph, node) for nodes in writing for node in nodes):
            found["in-place"] = None
        return list(found)

    def level(self, around: int) -> Level:
        """The direct contents of the box with this id; 0 is the outermost. Raises UnknownName."""
        number = self._number(around)
        return Level(around=around, boxes=list(self._boxes(number)), edges=list(self._levels.edges_in(number)))

    def repeat(self, id: int) -> RepeatView:
        """The differences between the modules folded into one box. Raises UnknownName."""
        number = self._number(id)
        if number < 0 or self.tree.kinds[number] != "repeat":
            raise UnknownName(f"the box {id} holds no modules that are alike", hint="boxes marked with ×N do")
        return self._repeat(number)

    def _repeat(self, number: int) -> RepeatView:
        return repeat_view(self.tree, number) | {"beside": repeat_beside(self.tree, number)}

    def beside(self, id: int, left: int, right: int) -> BesideView:
        """Two of the modules folded into one box side by side. Raises UnknownName, UnknownNumber."""
        return repeat_beside(self.tree, self._number(id), left, right)

    def repeats(self) -> dict[int, RepeatView]:
        """The same for the first folded boxes, for a page without Python."""
        tree = self.tree
        boxes = [number for number, kind in enumerate(tree.kinds) if kind == "repeat"]
        return {tree.ids[number]: self._repeat(number) for number in boxes[:_MOST_REPEATS]}

    def _boxes(self, around: int) -> Iterator[Box]:
        levels = self._levels
        for number in self.tree.children(around):
            box = self.tree.box(number)
            if self.tree.is_holder(number):
                box["holds"] = True
            crosses = int(levels.reads[number]) + 2 * int(levels.feeds[number])
            if crosses:
                box["crosses"] = crosses
            yield box

    def _number(self, id: int) -> int:
        if id == 0:
            return -1
        number = self.tree.number.get(id)
        if number is None:
            raise UnknownName(f"there is no box {id}", hint="boxes belong to one explorer")
        return number

    def places(self, ids: Iterable[int]) -> list[Place]:
        """The places of records, without those of other programs. A record that a pass removed has no place, only its name."""
        return [place for id in list(ids)[:_MOST_PLACES] if (place := self._place(id)) is not None]

    def _place(self, id: int) -> Place | None:
        graph, tree = self._graph, self.tree
        record = records_of(graph).get(id)
        node, value = record if isinstance(record, Node) else None, record if isinstance(record, Value) else None
        if record is None:
            number = tree.number.get(id)
            if number is None:
                before = self._as_written
                gone = records_of(before._graph).get(id) if before is not None else None
                return None if before is None or gone is None else Place(id=id, line=-1, path=[], title=before._titled(gone), values=[])
            lines = tree.lines_of(number)
            return Place(id=id, line=lines[0] if lines else -1, path=self._path(number), title=tree.box(number)["label"], values=[])
        maker = node if node is not None else graph.producer.get(value) if value is not None else None
        number = self._around(maker, tree.number.get(id, tree.home(value) if value is not None else -1))
        line = tree.lines[maker.id] if maker is not None else self._declared(value)
        title = f"%{graph.names[value]}" if value is not None else short_op(node.op) if node is not None else ""
        return Place(
            id=id, line=line, path=self._path(number), title=title,
            values=[output.id for output in node.outputs] if node is not None else [],
        )  # fmt: skip

    def _around(self, node: Node | None, number: int) -> int:
        """The box of a node. A node without its own box, such as a constant, has a number below 0: the enclosing box is returned."""
        graph = self._graph
        while number < 0 and node is not None:
            node = graph.owner.get(graph.block_of[node])
            number = self.tree.number.get(node.id, -1) if node is not None else -1
        return number

    def _declared(self, value: Value | None) -> int:
        """The line of an input; a block parameter is on the line after the node that holds the block."""
        graph = self._graph
        if value in graph.inputs:
            return graph.inputs.index(value)
        return self._params.get(value, -1) if value is not None else -1

    @cached_property
    def _params(self) -> Mapping[Value, int]:
        lines = self.tree.lines
        found: dict[Value, int] = {}
        for node in self._graph.nodes():
            line = lines[node.id] + 1
            for block in node.blocks:
                found.update(dict.fromkeys(block.params, line))
                line = (lines[block.nodes[-1].id] if block.nodes else line) + 2  # exact for one block, close for more
        return found

    def _path(self, number: int) -> list[int]:
        path: list[int] = []
        while number >= 0:
            path.append(self.tree.ids[number])
            number = int(self.tree.parent[number])
        return path[::-1]

    def find(self, query: str, *, all: bool = False) -> Found:
        """The results of a query, with the ids of the first few thousand or of `all`; for an invalid query, its error.

        If the program has no such record, records that passes removed are searched, and marked as written.
        """
        found, trouble = list[Node | Value](), ""
        try:
            found = self._queries(query)
        except IrscopeError as error:
            trouble = str(error)
        before = self._as_written.find(query, all=all) if not found and self._as_written is not None else None
        if before is not None and before["count"]:
            before["titles"] = [f"{title}, as written" for title in before["titles"]]
            return before
        shown = found[:_MOST_SHOWN]
        return Found(
            count=len(found), ids=[record.id for record in (found if all else found[:_MOST_IDS])], shown=[record.id for record in shown],
            titles=[self._titled(record) for record in shown],
            lines=[shortened(self._printed(record), 400) for record in shown], trouble=trouble,
        )  # fmt: skip

    @cached_property
    def _as_written(self) -> "ProgramIndex | None":
        queries = self._queries.as_written
        return None if queries is None else ProgramIndex(queries.graph, queries, self._queries.names)

    def _printed(self, record: Node | Value) -> str:
        """The line that defines a record; for an input or block parameter, its declaration."""
        names = self._names
        if isinstance(record, Value) and record not in self._graph.producer:
            return f"%{names[record]} : {record.type}"
        return print_node(self._graph.producer[record] if isinstance(record, Value) else record, names)

    def _titled(self, record: Node | Value) -> str:
        names = self._names
        if isinstance(record, Value):
            return f"%{names[record]}"
        op = short_op(record.op)
        return f"{op} → %{names[record.outputs[0]]}" if record.outputs else op

    def answers(self) -> Mapping[str, Any]:
        """The handlers of a page's requests, by kind."""
        return {
            "lines": lambda ask: {"text": self.lines(int(ask["first"]), int(ask["count"]))},
            "repeat": lambda ask: {"repeat": self.repeat(int(ask["box"]))},
            "repeat_beside": lambda ask: {"beside": self.beside(int(ask["box"]), int(ask["left"]), int(ask["right"]))},
            "levels": lambda ask: {"levels": [self.level(int(id)) for id in ask["boxes"][:_MOST_LEVELS]]},
            "find": lambda ask: {"found": self.find(str(ask["query"]), all=bool(ask.get("all")))},
            "examples": lambda _: {"examples": self._queries.examples()},
            "places": lambda ask: {"places": self.places([int(id) for id in ask["ids"]])},
        }
