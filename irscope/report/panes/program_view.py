"""A program as text and as boxes, and results that are no programs as boxes."""

from collections.abc import Mapping, Sequence
from itertools import islice

from irscope._base.words import shortened
from irscope.ir import Graph, Node, Value
from irscope.ir.text import print_graph
from irscope.report.box_tree import BoxTree, node_lines
from irscope.report.view_models import Box, BoxKind, Edge, GraphView, TextView
from irscope.report.words import short_type
from irscope.transforms.dedup import Dedup

# IR text line by line, with the node that each line prints.


def text_view(graph: Graph) -> TextView:
    """The text view of a program; source locations are separate from the lines."""
    lines = [_line(line) for line in print_graph(graph, locations=False).split("\n")]
    owners = [0] * len(lines)
    for node, line in node_lines(graph).items():
        owners[line] = node
    return TextView(
        lines=lines, nodes=owners, names={name: value.id for value, name in graph.names.items()},
        locations={node.id: shortened(str(node.location)) for node in graph.nodes() if node.location is not None},
    )  # fmt: skip


def _line(line: str) -> str:
    """A line cut to the length, after its indentation, that details use as well."""
    stripped = line.lstrip(" ")
    return " " * (len(line) - len(stripped)) + shortened(stripped)


# A whole program as boxes and edges; large programs start with their outer boxes closed.

_MOST_OPEN = 48  # The most boxes to show initially.
_SMALL = 150
"""The largest program, in boxes, that starts fully open. In a larger one modules start open and, if no layers repeat, other
boxes up to `_MOST_OPEN`."""
_FEW_OPEN = 20
_FEWEST = 5  # A picture of fewer ops and closed boxes says too little.


def graph_view(graph: Graph, classes: Mapping[Node, int] | None = None, hottest: int = 0) -> GraphView:
    """The graph view of a program; `classes` gives the number of a node's equivalence class. The boxes around the `hottest`
    node start open."""
    tree = BoxTree(graph, classes)
    ids = tree.ids
    edges = [
        Edge(source=ids[source], target=ids[target], value=value)
        for source, target, value in zip(tree.sources.tolist(), tree.targets.tolist(), tree.values.tolist(), strict=True)
    ]
    opened = set(opened_at_first(tree, hottest))
    closed = [ids[box] for box in range(len(tree)) if tree.is_holder(box) and box not in opened]
    return GraphView(boxes=[tree.box(k) for k in range(len(tree))], edges=edges, closed=closed)


def opened_at_first(tree: BoxTree, hottest: int = 0) -> list[int]:
    """The boxes that start open, from the outside in while the picture stays small: modules that lead to repeated layers, or, where
    none repeat, modules that hold modules, come first; of the groups side by side all or none. Repeated layers stay closed, as one box
    describes them all, unless hardly anything else is to be seen, and so do stretches of lines, which exist to be short; but those
    around the hottest node, if one is named, are open."""
    opened: list[int] = []
    visible = sum(1 for _ in tree.children(-1))
    is_small = len(tree) <= _SMALL
    more = _MOST_OPEN if is_small else 0 if "repeat" in tree.kinds else _FEW_OPEN
    leads = _leading_to_layers(tree)
    for only_modules, most in ((True, _MOST_OPEN), (False, more)):
        waiting = list(tree.children(-1))
        known = set(opened)
        for box in waiting:
            if tree.kinds[box] in ("repeat", "stretch") or not tree.is_holder(box):
                continue
            if box not in known:
                is_wanted = not only_modules or tree.kinds[box] == "lane" or box in leads
                if not is_wanted or visible + _inside(tree, box) > most:
                    continue
                is_group = tree.kinds[box] == "group"
                together = [each for each in tree.children(int(tree.parent[box])) if tree.kinds[each] == "group"] if is_group else [box]
                if visible + sum(_inside(tree, each) for each in together) > most:
                    continue
                visible += sum(_inside(tree, each) for each in together)
                known.update(together)
                opened += together
            waiting += tree.children(box)
    while (box := _alone(tree, opened)) >= 0 and visible + _inside(tree, box) <= _MOST_OPEN:
        visible += _inside(tree, box)
        opened.append(box)
    box = tree.number.get(hottest, -1)
    while box >= 0 and (box := int(tree.parent[box])) >= 0:
        if box not in opened:
            opened.append(box)
    return opened


def _inside(tree: BoxTree, box: int) -> int:
    return sum(1 for _ in tree.children(box))


def _alone(tree: BoxTree, opened: Sequence[int]) -> int:
    """The first box that could be opened, if few others are in sight; otherwise -1."""
    if len(opened) >= _FEWEST:
        return -1
    inner = (box for around in (-1, *opened) for box in tree.children(around) if box not in opened)
    seen = list(islice((box for box in inner if tree.kinds[box] not in ("input", "output")), _FEWEST))
    return next((box for box in seen if tree.is_holder(box) and tree.kinds[box] != "stretch"), -1) if len(seen) < _FEWEST else -1


def _leading_to_layers(tree: BoxTree) -> set[int]:
    """The boxes around repeated layers; where nothing repeats, those around modules."""
    sought = "repeat" if "repeat" in tree.kinds else "module"
    leads: set[int] = set()
    for box, kind in enumerate(tree.kinds):
        while kind == sought and (box := int(tree.parent[box])) >= 0 and box not in leads:
            leads.add(box)
    return leads


# Equivalence classes as boxes that contain their members, largest first.

_MOST_CLASSES = 40
_MOST_MEMBERS = 12
_LONGEST_WORDS = 20  # A title with more is cut.


def classes_picture(dedup: Dedup) -> GraphView:
    """The classes of any program as boxes that contain their members."""
    names = dedup.source.names if isinstance(dedup.source, Graph) else {}
    boxes: list[Box] = []
    contents = dedup.table()["ops" if dedup.constants is None else "shape"]
    for cls in dedup.classes[:_MOST_CLASSES]:
        around, words = -1 - cls.index, str(contents.loc[cls.index])
        while len(words) > _LONGEST_WORDS and ", " in words:
            words = words.removesuffix(" …").rpartition(", ")[0] + " …"
        boxes.append(_box(around, 0, "module", f"class {cls.index} ×{len(cls)}: {words}", "", -1))
        for member in cls.members[:_MOST_MEMBERS]:
            detail = ", ".join(short_type(value.type) for value in member.outputs[:4]) if isinstance(member, Node) else ""
            boxes.append(_box(1 + len(boxes), around, "op", shortened(_called(member, names), 40), detail, -1))
        if len(cls) > _MOST_MEMBERS:
            boxes.append(_box(1 + len(boxes), around, "op", f"and {len(cls) - _MOST_MEMBERS:,} more", "", -1))
    return GraphView(boxes=boxes, edges=[], closed=[])


def _box(id: int, parent: int, kind: BoxKind, label: str, detail: str, cls: int) -> Box:
    return Box(
        id=id, parent=parent, kind=kind, label=label, detail=detail, category="pointwise" if kind == "op" else "module", values=[],
        writes=False, equivalence_class=cls, size=1,
    )  # fmt: skip


def _called(member: object, names: Mapping[Value, str]) -> str:
    """The name of a member: a node by its first result, a function by its name."""
    if isinstance(member, Node):
        return next((f"%{names[value]}" for value in member.outputs if value in names), member.op)
    return str(getattr(member, "name", member))
