"""The boxes of a program as a tree: ops inside fusion groups and blocks, inside the modules of the user's model.

Boxes are numbered in preorder: the inside of box `k` is `k + 1 … end[k] - 1`. A module with a single child gets no box;
repeated modules share one box; and where a level would have more than `MOST_SIDE_BY_SIDE` boxes, they are grouped into
stretches of the program, so that no level is large. Records are numbers here; `box` builds the view of one.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from irscope._base.nested import grouped, reached
from irscope._base.words import plural, shortened
from irscope.analysis.dependence import dependences
from irscope.analysis.per_graph import per_graph
from irscope.ir import GROUPS, Block, Graph, Node, TensorType, Value, with_inner
from irscope.ops.registry import category_of, constant_arguments, effect_of
from irscope.report import repeats
from irscope.report.view_models import Box, BoxKind, Edge
from irscope.report.words import kind_of, short_op, short_type

# Computes the line of each node in the printed text, without printing.


def heading_lines(graph: Graph) -> int:
    """The number of lines before the first node: one per input, at least one."""
    return max(1, len(graph.inputs))


def line_count(graph: Graph, nodes: Iterable[Node]) -> int:
    """The number of lines of the whole text; `nodes` are all nodes of the graph."""
    return heading_lines(graph) + sum([1 + 2 * len(node.blocks) for node in nodes]) + 1


@per_graph
def node_lines(graph: Graph) -> Mapping[int, int]:
    """The line of each node by id, counted from 0, in program order. A block has one line before its nodes and one after."""
    found: dict[int, int] = {}
    line = heading_lines(graph)
    stack: list[tuple[Iterator[Node], Iterator[Block]]] = [(iter(graph.body.nodes), iter(()))]
    while stack:
        nodes, siblings = stack[-1]
        for node in nodes:
            found[node.id] = line
            line += 1
            if node.blocks:
                blocks = iter(node.blocks)
                line += 1
                stack.append((iter(next(blocks).nodes), blocks))
                break
        else:
            line += 1
            following = next(siblings, None)
            if following is None:
                stack.pop()
            else:
                line += 1
                stack[-1] = (iter(following.nodes), siblings)
    return found


MOST_SIDE_BY_SIDE = 120  # The most boxes of one level; more are grouped into stretches.
_PARTS = 24  # The approximate number of stretches that a long level is cut into.
_MANY_ENDS = 12  # More inputs, or results, than this share one box.
_MANY_GRADIENTS = 4
_MOST_LOOSE = 8  # Longer runs of ops between modules share one box.
_LONGEST_LABEL = 400
_MOST_TYPES = 8
_LONGEST_TITLE = 30  # Pictures cut longer ones.
_RESULT = -(2**40)  # Boxes of results have ids below this one; ids of modules, stretches and repeats are negative and above it.


@dataclass(frozen=True)
class _Holder:
    """A box that does not represent a record."""

    kind: BoxKind
    label: str
    detail: str = ""
    copies: int = 0
    path: str = ""  # The path of its module, even if that contains only repeats.
    members: frozenset[str] = frozenset()  # The paths of repeated modules; other boxes in it are between them.


class BoxTree:
    """The boxes of one graph; `classes` gives the number of a node's equivalence class."""

    def __init__(self, graph: Graph, classes: Mapping[Node, int] | None = None) -> None:
        self.graph = graph
        self.classes: Mapping[Node, int] = classes or {}
        draft = _Draft(graph)
        draft.draw()
        order, parent = draft.arrange()
        self.subjects: list[Node | Value | _Holder] = [draft.subjects[k] for k in order]
        self.kinds: list[BoxKind] = [draft.kinds[k] for k in order]
        self.ids = [draft.ids[k] for k in order]
        self.parent = np.array(parent, np.int64)  # The parent of each box; -1 at the top.
        self.end = _ends(parent)
        self.number = {id: k for k, id in enumerate(self.ids)}  # Box numbers by id.
        place = np.full(len(draft.parent), -1, np.int64)
        place[order] = np.arange(len(order))
        self._lanes = [(box, each.label) for box, each in enumerate(self.subjects) if isinstance(each, _Holder) and each.kind == "lane"]
        self._repeats: dict[int, int] = {}  # The first box of repeated layers in each box around one.
        for box, kind in enumerate(self.kinds):
            around = parent[box]
            while kind == "repeat" and around >= 0 and around not in self._repeats:
                self._repeats[around], around = box, parent[around]
        self._is_analysed = len(graph.position) <= _MOST_ANALYSED
        self._home = draft.home
        self._scopes = draft.scopes
        self._place = place
        self.sources, self.targets, self.values = draft.edges(place)
        """The edges: producing box, using box, id of the value; 0 where the one writes what the other reads."""
        effects = [(self.number[a.id], self.number[b.id]) for a, b in effects_of(graph) if a.id in self.number and b.id in self.number]
        if effects:
            writers, readers = np.array(effects, np.int64).T
            self.sources, self.targets = np.concatenate([self.sources, writers]), np.concatenate([self.targets, readers])
            self.values = np.concatenate([self.values, np.zeros(len(effects), np.int64)])
        is_op = np.fromiter((kind == "op" for kind in self.kinds), bool, len(order))
        self._ops_before = np.concatenate([[0], np.cumsum(is_op)])

    def __len__(self) -> int:
        return len(self.ids)

    def children(self, box: int) -> Iterator[int]:
        """The direct children of a box, in program order; those of -1 are the outermost."""
        inner = box + 1
        last = len(self) if box < 0 else int(self.end[box])
        while inner < last:
            yield inner
            inner = int(self.end[inner])

    def is_holder(self, box: int) -> bool:
        return int(self.end[box]) > box + 1

    def home(self, value: Value) -> int:
        """The box that produces a value; -1 if only the text shows it."""
        raw = self._home.get(value, -1)
        return int(self._place[raw]) if raw >= 0 else -1

    def ops_in(self, box: int) -> int:
        """The number of ops in a box; 1 for the box of an op."""
        return int(self._ops_before[self.end[box]] - self._ops_before[box])

    def box(self, number: int) -> Box:
        subject, kind = self.subjects[number], self.kinds[number]
        around = int(self.parent[number])
        made = Box(
            id=self.ids[number], parent=self.ids[around] if around >= 0 else 0, kind=kind, label="", detail="", category=kind,
            values=[], writes=False, equivalence_class=-1, size=self.ops_in(number),
        )  # fmt: skip
        for lane, label in self._lanes:
            if lane < number < self.end[lane]:
                made["lane"] = label
        if isinstance(subject, _Holder):
            label = subject.label or self._stretch(number)
            made["label"], made["detail"], made["category"] = label, self._told(number, subject), "module"
            if subject.copies:
                made["copies"] = subject.copies
        elif isinstance(subject, Value):
            name, values = f"%{self.graph.names[subject]}", [subject.id]
            made["values"] = values
            made["label"], made["detail"] = (name, short_type(subject.type)) if kind == "input" else ("result", name)
        else:
            self._of_node(made, subject)
        return made

    def _of_node(self, made: Box, node: Node) -> None:
        label = self._called(node)
        more = len(node.outputs) - _MOST_TYPES
        detail = ", ".join(short_type(value.type) for value in node.outputs[:_MOST_TYPES]) + (f" and {more:,} more" if more > 0 else "")
        if made["kind"] == "group":
            numbers = repeats.folded_numbers(self.graph).keys()  # what stretches one is named by the labels of its readers
            ops = [each for each in node.blocks[0].nodes if each.op != repeats.CONSTANT and numbers.isdisjoint(each.outputs[:1])]
            label, further = " · ".join(map(self._called, ops[:3])), " …" if len(ops) > 3 else ""
            if len(label) > _LONGEST_TITLE:  # better no numbers than a cut
                label = " · ".join(short_op(inner.op) for inner in ops[:3])
            if node.outputs and self._alike[self._look(self.number[node.id], node)] > 1:
                detail = f"%{self.graph.names[node.outputs[0]]} : {detail}"
            detail = f"{plural(len(ops), 'op')} → {detail}"
            label = str(node.attrs.get("kernel") or label + further)  # the name that another compiler gave
        elif node.blocks:
            detail = f"{plural(made['size'], 'op')} → {detail}" if detail else plural(made["size"], "op")
        made["label"], made["detail"] = label, detail
        made["category"] = kind_of(self.graph, node) if self._is_analysed else category_of(node)
        made["values"] = [value.id for value in node.outputs]
        made["writes"], made["equivalence_class"] = writes_memory(self.graph, node), self.classes.get(node, -1)

    def _look(self, number: int, group: Node) -> object:
        """What the title of a group shows of it, and the box around it."""
        inside = group.blocks[0].nodes
        return int(self.parent[number]), len(inside), *[value.type for value in group.outputs[:1]], *[node.op for node in inside[:3]]

    @cached_property
    def _alike(self) -> Mapping[object, int]:
        """How many groups beside each other look the same: their titles also name what they make."""
        groups = ((number, node) for number, node in enumerate(self.subjects) if self.kinds[number] == "group")
        return Counter(self._look(number, node) for number, node in groups if isinstance(node, Node))

    def _called(self, node: Node) -> str:
        """The op without its namespace, a pointwise one with the numbers among its tensors in their places: `sub(1, ·)`."""
        name, numbers = short_op(node.op), repeats.folded_numbers(self.graph)
        if not numbers or node.blocks or numbers.keys().isdisjoint(node.inputs) or category_of(node) not in ("pointwise", "view"):
            return name
        return f"{name}({', '.join(numbers.get(value, '·') for value in node.inputs if isinstance(value.type, TensorType))})"

    @cached_property
    def modules(self) -> tuple[repeats.ModuleText, Mapping[str, Sequence[Node]]]:
        """The nodes of each module by path; nodes of equal modules correspond by position."""
        text = repeats.ModuleText(self.graph, self._scopes)
        return text, text.by_path()

    def members(self, number: int) -> dict[int, str]:
        """The boxes of the modules in a box of repeats, mapped to their paths, including those inside stretches."""
        found: dict[int, str] = {}
        waiting, held = list(self.children(number))[::-1], self.subjects[number]
        assert isinstance(held, _Holder)
        while waiting:
            box = waiting.pop()
            subject = self.subjects[box]
            if self.kinds[box] == "stretch":
                waiting += list(self.children(box))[::-1]
            elif isinstance(subject, _Holder) and subject.path in held.members:
                found[box] = subject.path
        return found

    @cached_property
    def lines(self) -> Mapping[int, int]:
        """The line that prints each node, by id; lines count from 0."""
        return node_lines(self.graph)

    def lines_of(self, number: int) -> tuple[int, int] | None:
        """The first and last line of the nodes in a box; None if it has none."""
        inside = range(number, int(self.end[number]))
        first = next((k for k in inside if isinstance(self.subjects[k], Node)), None)
        if first is None:
            return None
        last = next(k for k in reversed(inside) if isinstance(self.subjects[k], Node))
        return self.lines[self.ids[first]], self.lines[self.ids[last]]

    def _stretch(self, number: int) -> str:
        lines = self.lines_of(number)
        if lines is not None:
            return f"lines {lines[0] + 1:,}–{lines[1] + 1:,}"
        ends = [kind for kind in self.kinds[number : int(self.end[number])] if kind in ("input", "output")]
        return plural(len(ends), "input" if "input" in ends else "result")

    def _told(self, number: int, holder: _Holder) -> str:
        told = [plural(self.ops_in(number), "op")] if holder.kind != "stretch" or self.lines_of(number) else []
        inner = self.subjects[self._repeats[number]] if holder.kind == "module" and number in self._repeats else None
        if isinstance(inner, _Holder):
            told.append(f"{inner.label.removeprefix(f'{holder.label}.')} ×{inner.copies}")
        return " · ".join([*told, *([holder.detail] if holder.detail else [])])


def writes_memory(graph: Graph, node: Node) -> bool:
    """Whether a node writes in place; a batch norm does so only in training mode."""
    if node.blocks:
        return False
    return effect_of(node) == "in-place" and effect_of(node, constant_arguments(graph, node)) == "in-place"


_MOST_ANALYSED = 5_000  # the first picture waits for the analyses of aliases and views


@per_graph
def effects_of(graph: Graph) -> list[tuple[Node, Node]]:
    """The nodes that write memory, each with the later ones of its block that read it before another write: the dependences through
    memory that decide whether a fusion is legal, without those that a value shows, too.
    """
    sample = {node.op: node for node in graph.nodes() if not node.blocks}
    if len(graph.position) > _MOST_ANALYSED or all(effect_of(node) not in ("in-place", "opaque") for node in sample.values()):
        return []
    found: list[tuple[Node, Node]] = []
    for block in graph.blocks():
        if (owner := graph.owner.get(block)) is not None and owner.op in GROUPS:
            continue
        ties = dependences(graph, block)
        for reader, each in ties.predecessors.items():
            for tie in each if not ties.by_data_alone else ():
                written, read = tie.obstacle.accesses or (None, None)
                if written in ties.db.accesses(tie.node).writes and read in ties.db.accesses(reader).reads:
                    found.append((tie.node, reader))
    return found


def _ends(parent: Sequence[int]) -> np.ndarray:
    """For boxes in preorder, the end of the inside of each."""
    size = [1] * len(parent)
    for box in range(len(parent) - 1, -1, -1):
        if parent[box] >= 0:
            size[parent[box]] += size[box]
    return np.arange(len(parent)) + np.array(size, np.int64)


@dataclass
class _Draft:
    """Boxes in the order of discovery, parents first; `arranged` computes their final order."""

    graph: Graph
    parent: list[int] = field(default_factory=list)
    kinds: list[BoxKind] = field(default_factory=list)
    subjects: list[Node | Value | _Holder] = field(default_factory=list)
    ids: list[int] = field(default_factory=list)
    home: dict[Value, int] = field(default_factory=dict)  # The box that produces each value.
    quiet: set[Node] = field(default_factory=set)
    sources: list[int] = field(default_factory=list)
    targets: list[int] = field(default_factory=list)
    read: list[int] = field(default_factory=list)  # For each edge: the producing box, the using box, and the id of the value.
    scopes: Mapping[Node, str] = field(default_factory=dict)  # Substitutes for the scopes of the nodes.
    is_joint: bool = False  # Whether the outermost of them are the passes of a joint graph.
    holders: int = 0
    has_modules: bool = False

    def draw(self) -> None:
        """Create a box for each input, each node that is not quiet, each module around them, and each result."""
        graph, home = self.graph, self.home
        self.quiet = quiet = repeats.quiet_nodes(graph)
        self.scopes, self.is_joint = repeats.places_of(graph), bool(repeats.lanes_of(graph))
        for value in graph.free_inputs:
            home[value] = self._add(value, "input", value.id, -1)
        calls = repeats.ModuleCalls(self._module, self.parent, one_each=self.is_joint)
        inside: dict[Node, int] = {}
        handed_back: list[tuple[tuple[Value, ...], int]] = []
        scopes = self.scopes
        for node in graph.nodes():
            if node in quiet:
                continue
            blocks = node.blocks
            read = self._read(node.inputs)
            makers = [home[value] for value in read]
            kind: BoxKind = "op" if not blocks else "group" if node.op.endswith("Group") else "block"
            around = inside.get(node, -1) if inside else -1
            if around < 0:
                scope = scopes.get(node, "") if scopes else node.scope if kind == "op" else repeats.scope_of(node)
                if scope:
                    needed = [home[value] for each in with_inner(node) for value in self._read(each.inputs)] if blocks else makers
                    around = calls.box_of(scope, needed)
            box = self._add(node, kind, node.id, around)
            self.sources += makers
            self.targets += [box] * len(makers)
            self.read += [value.id for value in read]
            if kind == "block":
                handed_back += [(block.returns, box) for block in blocks]
            for value in node.outputs:
                home[value] = box
            for block in blocks:
                inside.update(dict.fromkeys(block.nodes, box))
                home.update(dict.fromkeys(block.params, box))
            if kind == "group":
                calls.spans(box, {scopes.get(inner, "") if scopes else inner.scope for inner in blocks[0].nodes})
        for returned, box in handed_back:
            for value in self._read(returned):
                self._join(value, box)
        for value in self._read(graph.outputs):
            self._join(value, self._add(value, "output", _RESULT - value.id, -1))

    def _join(self, value: Value, reader: int) -> None:
        maker = self.home[value]
        if maker != reader:
            self.sources.append(maker)
            self.targets.append(reader)
            self.read.append(value.id)

    def _add(self, subject: Node | Value | _Holder, kind: BoxKind, id: int, around: int) -> int:
        self.parent.append(around)
        self.kinds.append(kind)
        self.subjects.append(subject)
        self.ids.append(id)
        return len(self.parent) - 1

    def _module(self, path: str, around: int) -> int:
        self.has_modules = True
        kind: BoxKind = "lane" if self.is_joint and around < 0 else "module"
        return self._hold(_Holder(kind, self._told(path), path=path), around)

    def _told(self, path: str) -> str:
        """What is written for a path: the pass of a joint graph is around it anyway."""
        inner = path.partition(".")[2] if self.is_joint else ""
        return shortened(inner or path, _LONGEST_LABEL)

    def _hold(self, holder: _Holder, around: int) -> int:
        self.holders += 1
        return self._add(holder, holder.kind, -self.holders, around)

    def _read(self, values: Sequence[Value]) -> Collection[Value]:
        """The values with boxes among these or inside their lists. Each quiet list has one user, so all calls together are linear."""
        home = self.home
        if None not in map(home.get, values):
            return values if len(values) < 2 else dict.fromkeys(values)
        found: dict[Value, None] = {}
        producer, quiet = self.graph.producer, self.quiet
        pending = list(values)[::-1]
        while pending:
            value = pending.pop()
            if value in home:
                found[value] = None
                continue
            maker = producer.get(value)
            if maker is not None and maker in quiet and maker.inputs:
                pending.extend(reversed(maker.inputs))
        return found

    def edges(self, place: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The edges from the producing box of each value to each using box, through quiet lists. A value that a block returns
        without producing it has an edge to the node that holds the block."""
        ends = place[np.array(self.sources, np.int64)], place[np.array(self.targets, np.int64)]
        shown = (ends[0] >= 0) & (ends[1] >= 0)
        return ends[0][shown], ends[1][shown], np.array(self.read, np.int64)[shown]

    def arrange(self) -> tuple[list[int], list[int]]:
        """The boxes in preorder, and the position of each parent in that order."""
        inside = self._inside()
        for kind in ("input", "output"):
            self._gather(kind, inside)
        if self.has_modules:
            self._fold_repeats(inside)
            for around in list(inside):
                self._gather_loose(around, inside)
        for around in list(inside):
            if len(inside[around]) > MOST_SIDE_BY_SIDE:
                self._cut(around, inside)
        order: list[int] = []
        parents: list[int] = []
        waiting = [(box, -1) for box in reversed(inside.get(-1, []))]
        while waiting:
            box, around = waiting.pop()
            parents.append(around)
            order.append(box)
            here = len(order) - 1
            waiting.extend((inner, here) for inner in reversed(inside.get(box, [])))
        return order, parents

    def _gather(self, kind: BoxKind, inside: dict[int, list[int]]) -> None:
        """Group the inputs, or the results, into one box if they are many; fewer gradients are, as a row of them puts the passes apart."""
        held = [box for box in inside[-1] if self.kinds[box] == kind]
        if len(held) > (_MANY_GRADIENTS if self.is_joint and kind == "output" else _MANY_ENDS):
            gathered = self._hold(_Holder("stretch", ""), -1)
            inside[gathered] = held
            rest = [box for box in inside[-1] if self.kinds[box] != kind]
            inside[-1] = [gathered, *rest] if kind == "input" else [*rest, gathered]

    def _gather_loose(self, around: int, inside: dict[int, list[int]]) -> None:
        """Group long runs of ops between modules into boxes: the code of a forward between its submodules. An op that is the
        whole of a module stays out."""
        level = inside[around]
        if len(level) <= _MOST_LOOSE or not any(self.kinds[box] in ("module", "repeat") for box in level):
            return
        arranged: list[int] = []
        run: list[int] = []
        for box in [*level, -1]:
            if box >= 0 and self.kinds[box] in ("op", "group", "block") and self.parent[box] == around:
                run.append(box)
                continue
            if len(run) > _MOST_LOOSE:
                gathered = self._hold(_Holder("stretch", ""), around)
                inside[gathered] = run
                run = [gathered]
            arranged += run
            run = []
            if box >= 0:
                arranged.append(box)
        inside[around] = arranged

    def _inside(self) -> dict[int, list[int]]:
        """The children of each box, without modules that have fewer than two children."""
        count = [0] * len(self.parent)
        for around in self.parent:
            if around >= 0:
                count[around] += 1
        moved: dict[int, int] = {}
        inside: dict[int, list[int]] = {-1: []}
        for box, around in enumerate(self.parent):
            around = moved.get(around, around)
            if self.kinds[box] == "module" and count[box] < 2:
                moved[box] = around
            else:
                inside.setdefault(around, []).append(box)
        return inside

    def _fold_repeats(self, inside: dict[int, list[int]]) -> None:
        """Group runs of equal modules into one box each."""
        calls: dict[str, int] = {}
        for box, kind in enumerate(self.kinds):
            if kind == "module":
                path = self._path(box)
                calls[path] = calls.get(path, 0) + 1
        if len(calls) < repeats.FEWEST:
            return
        text = repeats.ModuleText(self.graph, self.scopes)
        nodes = text.by_path()
        twin: dict[int, int] = {}
        known: dict[int, tuple[list[str], list[repeats.Run]]] = {}
        waiting = [-1, *(box for box, kind in enumerate(self.kinds) if kind == "lane")]
        for around in waiting:
            modules = [box for box in inside[around] if self.kinds[box] == "module" and calls[self._path(box)] == 1]
            paths = [self._path(box) for box in modules]
            start = len(self._path(around)) if around >= 0 else 0
            told, other = [path[start:] for path in paths], known.get(twin.get(around, around))
            if other is not None and other[0] == told:
                runs = other[1]  # the enclosing modules are equal, constants and types included
            else:
                runs = repeats.runs_of(paths, nodes, text) if len(modules) >= repeats.FEWEST else []
            known[around] = told, runs
            for run in runs:
                if not run.holes and run.fused_alike:
                    twin.update((modules[k], modules[run.members[0]]) for k in run.members[1:])
            waiting += modules
            for run in runs:
                self._fold(around, [modules[k] for k in run.members], run, inside)

    def _path(self, box: int) -> str:
        holder = self.subjects[box]
        assert isinstance(holder, _Holder)
        return holder.path

    def _fold(self, around: int, members: list[int], run: repeats.Run, inside: dict[int, list[int]]) -> None:
        differ = [plural(run.holes, "place")] * (run.holes > 0) + ["fusion"] * (not run.fused_alike)
        paths = [self._path(box) for box in members]
        detail = f"alike but for {' and '.join(differ)}" if differ else "alike"
        told = _Holder("repeat", self._told(repeats.told_range(paths)), detail, len(members), members=frozenset(paths))
        if not {*members} <= {*inside[around]}:
            return  # some are between those of another run
        members = self._with_between(members, inside, inside[around])
        if around >= 0 and self.kinds[around] == "module" and len(members) == len(inside[around]):
            # a list of layers: its box becomes the box of the run
            self.subjects[around], self.kinds[around] = replace(told, path=self._path(around)), "repeat"
            return
        folded = self._hold(told, around)
        held = set(members)
        first = inside[around].index(members[0])
        rest = [box for box in inside[around] if box not in held]
        inside[around] = [*rest[:first], folded, *rest[first:]]
        inside[folded] = members

    def _with_between(self, members: list[int], inside: Mapping[int, list[int]], level: list[int]) -> list[int]:
        """Boxes of a level, and those on the ways from one of them to another: left outside of a box of them all, their edges would lead
        out of it and back, as if they ran side by side. Linear in what is between the first and the last."""
        span = level[level.index(members[0]) : level.index(members[-1]) + 1]
        if len(span) == len(members):
            return members
        owner = {inner: box for box in span for inner in reached([box], lambda inner: inside.get(inner, ()))}
        before: dict[int, set[int]] = {box: set() for box in span}
        for inner, box in owner.items():
            before[box].update(owner[source] for source in self._makers.get(inner, ()) if source in owner)
        after, needed = set(members), set(members)
        for box in span:
            if after & before[box]:
                after.add(box)
        for box in reversed(span):
            if box in needed:
                needed |= before[box]
        return [box for box in span if box in after and box in needed]

    @cached_property
    def _makers(self) -> Mapping[int, list[int]]:
        """The boxes whose values each box reads."""
        return grouped(zip(self.targets, self.sources, strict=True))

    def _cut(self, around: int, inside: dict[int, list[int]]) -> None:
        """Group the boxes of a long level into stretches, recursively."""
        whole = inside[around]
        before = [box for box in whole if self.kinds[box] == "input"]
        after = [box for box in whole if self.kinds[box] == "output"]
        level = whole[len(before) : len(whole) - len(after)]
        while len(level) > MOST_SIDE_BY_SIDE:
            size = max(_PARTS, -(-len(level) // _PARTS) if len(level) <= _PARTS * MOST_SIDE_BY_SIDE else _PARTS)
            stretches = []
            for start in range(0, len(level), size):
                part = level[start : start + size]
                stretch = self._hold(_Holder("stretch", ""), around)
                inside[stretch] = part
                stretches.append(stretch)
            level = stretches
        inside[around] = [*before, *level, *after]


# The edges drawn inside each box.
#
# An edge between two boxes belongs to the innermost box around both, where it connects the two children that contain its
# ends; equal edges are merged. The edges of all levels are computed together, one nesting depth at a time.

_MOST_VALUES = 12  # The most values listed for one drawn edge.


class Levels:
    """The drawn edges of a tree of boxes, level by level."""

    def __init__(self, tree: BoxTree) -> None:
        self._tree = tree
        a, b, values = tree.sources, tree.targets, tree.values
        self.reads = np.zeros(len(tree), bool)  # Boxes that use a value from outside their parent.
        self.feeds = np.zeros(len(tree), bool)  # Boxes that produce a value used outside their parent.
        depths = [0] * len(tree)
        for box, around in enumerate(tree.parent.tolist()):  # parents come first
            depths[box] = depths[around] + 1 if around >= 0 else 0
        depth = np.array(depths, np.int64)
        parent = np.append(tree.parent, -1)  # makes the top, -1, its own parent
        holds = np.zeros(len(a), bool)
        while (deeper := depth[a] > depth[b]).any():
            self.feeds[a[deeper]] = True
            a = np.where(deeper, parent[a], a)
        while (deeper := depth[b] > depth[a]).any():
            self.reads[b[deeper]] = True
            b = np.where(deeper, parent[b], b)
        holds = a == b
        while (apart := ~holds & (parent[a] != parent[b])).any():
            self.feeds[a[apart]] = True
            self.reads[b[apart]] = True
            a, b = np.where(apart, parent[a], a), np.where(apart, parent[b], b)
        a, b, values = a[~holds], b[~holds], values[~holds]
        level = parent[a]
        order = np.lexsort((b, a, level))
        self._a, self._b, self._values, self._level = a[order], b[order], values[order], level[order]

    def edges_in(self, box: int) -> Iterator[Edge]:
        """The edges between the children of a box (-1: the outermost), each with a few of its values."""
        first, last = np.searchsorted(self._level, [box, box + 1])
        ids = self._tree.ids
        before, told = (-1, -1), 0
        for k in range(int(first), int(last)):
            ends = int(self._a[k]), int(self._b[k])
            told = told + 1 if ends == before else 0
            before = ends
            if told < _MOST_VALUES:
                yield Edge(source=ids[ends[0]], target=ids[ends[1]], value=int(self._values[k]))
