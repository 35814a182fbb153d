"""A program as boxes and edges: ops inside fusion groups and blocks, inside the modules of the user's model.

Left out, for the text shows them: constants and arithmetic on numbers, parameters of the model, and lists with one
reader, which edges go through. A module with a single thing in it is not worth a box. Big programs open with their outer boxes closed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from irscope._base.escaping import shortened
from irscope.ir import ANY, Block, ClassType, Graph, Node, TensorType, Value, walk
from irscope.ops.registry import category_of, constant_arguments, effect_of
from irscope.ops.traits import PACKS_SEQUENCE
from irscope.report.view_models import Box, BoxKind, Edge, GraphView
from irscope.report.words import plural, short_type

__all__ = ["graph_view"]

_DEEPEST = 100
"""Modules inside each other that get boxes of their own."""
_LONGEST_LABEL = 400

_MOST_OPEN = 48
"""Boxes to show before anything is opened by hand."""
_QUIET = frozenset({"prim::Constant"})
_ALWAYS_SHOWN = frozenset({"prim::Print"})
_RESULT = -(2**40)
"""Boxes of results have ids below this one; those of modules lie above it."""


def graph_view(graph: Graph, classes: Mapping[Node, int] | None = None) -> GraphView:
    """The graph view of a program; `classes` numbers the equivalence class of a node."""
    sketch = _Sketch(graph, classes or {})
    sketch.find_quiet()
    sketch.draw()
    boxes = _without_lonely_modules(sketch.boxes)
    known = {box["id"] for box in boxes}
    edges = [edge for edge in sketch.edges() if edge["source"] in known and edge["target"] in known]
    return GraphView(boxes=boxes, edges=edges, closed=_closed_at_first(boxes))


@dataclass
class _Sketch:
    """Collects boxes in textual order; `home` remembers which box makes each value."""

    graph: Graph
    classes: Mapping[Node, int]
    boxes: list[Box] = field(default_factory=list)
    home: dict[Value, int] = field(default_factory=dict)
    quiet: set[Node] = field(default_factory=set)
    inside: dict[Block, int] = field(default_factory=dict)
    modules: dict[tuple[int, str], int] = field(default_factory=dict)
    """The box of a module path inside a box: of its latest call."""
    calls: int = 0
    order: dict[int, int] = field(default_factory=dict)
    """How many boxes came before each."""
    around: dict[int, int] = field(default_factory=dict)

    def draw(self) -> None:
        """Make a box for every input, every node that is not quiet, and every module around them."""
        self.inside[self.graph.body] = 0
        for value in self.graph.free_inputs:
            self._add(value.id, 0, "input", f"%{self.graph.names[value]}", short_type(value.type), "input", [value.id])
            self.home[value] = value.id
        block_of = self.graph.block_of
        for node in self.graph.nodes():
            if node in self.quiet:
                continue
            holder = block_of[node]
            parent = self.inside.get(holder, 0)
            self._node(node, parent if parent else self._module(node))
        for value in self._read(self.graph.outputs):
            self._add(_RESULT - value.id, 0, "output", "result", f"%{self.graph.names[value]}", "output", [value.id])

    def find_quiet(self) -> None:
        """Note the nodes without a box: those that touch no tensor, and lists that one reader takes apart again."""
        for node in reversed(list(self.graph.nodes())):  # what is inside a block comes before the node that holds it
            is_number_work = not any(map(_holds_data, (*node.inputs, *node.outputs)))
            if node.blocks:
                is_number_work = is_number_work and all(
                    inner in self.quiet for block in node.blocks for inner in block.nodes
                )
            is_link = node.op in PACKS_SEQUENCE and len(self.graph.users.get(node.outputs[0], ())) <= 1
            if node.op in _QUIET or is_link or (is_number_work and node.op not in _ALWAYS_SHOWN):
                self.quiet.add(node)

    def _node(self, node: Node, parent: int) -> None:
        kind: BoxKind = "op" if not node.blocks else "group" if node.op.endswith("Group") else "block"
        label = node.op.partition("::")[2] or node.op
        detail = ", ".join(short_type(value.type) for value in node.outputs)
        if kind == "group":
            ops = [inner.op.partition("::")[2] for inner in node.blocks[0].nodes if inner.op not in _QUIET]
            label, detail = " · ".join(ops[:3]) + (" …" if len(ops) > 3 else ""), f"{plural(len(ops), 'op')} → {detail}"
        self._add(node.id, parent, kind, label, detail, category_of(node), [value.id for value in node.outputs], node)
        self.home.update(dict.fromkeys(node.outputs, node.id))
        for block in node.blocks:
            self.inside[block] = node.id
            self.home.update(dict.fromkeys(block.params, node.id))

    def _module(self, node: Node) -> int:
        """The box of a node's module, made together with those around it when it is new.

        A module that is called again on what came out of it gets a box for each call: in one box the calls would be a
        cycle. A node may join a call if all it reads was made inside it or before it began.
        """
        box = 0
        path = ""
        sources = [self.home[value] for value in self._read(_all_inputs(node))] if node.scope else []
        for part in node.scope.split(".", _DEEPEST) if node.scope else ():
            path = f"{path}.{part}" if path else part
            call = self.modules.get((box, path))
            if call is None or not all(
                self._is_before(source, call) or self._is_in(source, call) for source in sources
            ):
                self.calls += 1
                call = self.modules[box, path] = -self.calls
                self._add(call, box, "module", shortened(path, _LONGEST_LABEL), "", "module", [])
            box = call
        return box

    def _is_before(self, box: int, call: int) -> bool:
        return self.order[box] < self.order[call]

    def _is_in(self, box: int, call: int) -> bool:
        while box not in (0, call):
            box = self.around[box]
        return box == call

    def _add(
        self, id: int, parent: int, kind: BoxKind, label: str, detail: str, category: str, values: list[int],
        node: Node | None = None,
    ) -> None:  # fmt: skip
        self.order[id] = len(self.order)
        self.around[id] = parent
        self.boxes.append(
            Box(
                id=id, parent=parent, kind=kind, label=label, detail=detail, category=category, values=values,
                writes=node is not None and _writes_memory(self.graph, node),
                equivalence_class=self.classes.get(node, -1) if node is not None else -1,
                size=1 if kind == "op" else 0,
            )
        )  # fmt: skip

    def edges(self) -> Iterator[Edge]:
        """From the box that makes each value to each box that reads it, through quiet lists."""
        for node in self.graph.nodes():
            if node in self.quiet:
                continue
            for value in self._read(node.inputs):
                if self.home[value] != node.id:
                    yield Edge(source=self.home[value], target=node.id, value=value.id)
        for value in self._read(self.graph.outputs):
            yield Edge(source=self.home[value], target=_RESULT - value.id, value=value.id)

    def _read(self, values: Iterable[Value]) -> dict[Value, None]:
        """The values with a box that these are or hold. Each quiet list has one reader, so all reads together are linear."""
        found: dict[Value, None] = {}
        pending = list(values)[::-1]
        while pending:
            value = pending.pop()
            producer = self.graph.producer.get(value)
            if producer in self.quiet and producer is not None:
                pending.extend(reversed(producer.inputs))
            elif value in self.home:
                found[value] = None
        return found


def _all_inputs(node: Node) -> Iterator[Value]:
    """What a node reads, and what the nodes in its blocks read."""
    waiting = [node]
    while waiting:
        reader = waiting.pop()
        yield from reader.inputs
        waiting.extend(inner for block in reader.blocks for inner in block.nodes)


def _writes_memory(graph: Graph, node: Node) -> bool:
    """Whether a node writes in place; a batch norm does only when it trains."""
    if node.blocks:
        return False
    return effect_of(node) == "in-place" and effect_of(node, constant_arguments(graph, node)) == "in-place"


def _holds_data(value: Value) -> bool:
    """Whether a value may be or hold a tensor or an object."""
    return any(isinstance(part, TensorType | ClassType) or part == ANY for part in walk(value.type))


def _without_lonely_modules(boxes: list[Box]) -> list[Box]:
    """Drop modules with fewer than two things in them, count what the others hold, and put boxes after their parents."""
    children: dict[int, int] = {}
    for box in boxes:
        children[box["parent"]] = children.get(box["parent"], 0) + 1
    moved: dict[int, int] = {}
    kept: list[Box] = []
    for box in boxes:
        parent = moved.get(box["parent"], box["parent"])
        if box["kind"] == "module" and children.get(box["id"], 0) < 2:
            moved[box["id"]] = parent
            continue
        box["parent"] = parent
        kept.append(box)
    by_id = {box["id"]: box for box in kept}
    for box in reversed(kept):
        if box["parent"]:
            by_id[box["parent"]]["size"] += max(1, box["size"])
    for box in kept:
        if box["kind"] == "module":
            box["detail"] = plural(box["size"], "op")
    return kept


def _closed_at_first(boxes: list[Box]) -> list[int]:
    """Which boxes start closed: open from the outside in while the picture stays small."""
    children: dict[int, list[Box]] = {}
    for box in boxes:
        children.setdefault(box["parent"], []).append(box)
    visible = len(children.get(0, []))
    closed = [box["id"] for box in boxes if box["id"] in children]
    opened: set[int] = set()
    queue = [box for box in children.get(0, []) if box["id"] in children]
    for box in queue:
        inside = children[box["id"]]
        if visible + len(inside) > _MOST_OPEN:
            continue
        visible += len(inside)
        opened.add(box["id"])
        queue.extend(inner for inner in inside if inner["id"] in children)
    return [id for id in closed if id not in opened]
