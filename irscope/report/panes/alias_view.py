"""What may share memory with a value: a sentence, an alias set, and the memory of a program as a picture."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, islice
from math import inf
from textwrap import wrap
from typing import Final, Literal, NamedTuple

from irscope._base.nested import grouped
from irscope._base.results import Verdict
from irscope._base.words import plural, shortened
from irscope.analysis.alias import AliasDb, Step
from irscope.ir import Node, Value
from irscope.report import view_models as vm
from irscope.report.box_tree import node_lines
from irscope.report.words import short_op, short_type

_MOST_NAMED = 6


class _Shared(NamedTuple):
    """The part of the details that all values with one alias set share."""

    values: tuple[Value, ...]
    ids: list[int]
    writer_ids: list[int]
    first_writer: str


class AliasViews:
    """Alias details of the values of one graph; each set is computed once, not per value."""

    def __init__(self, db: AliasDb) -> None:
        self.db = db
        self._names = db.graph.names
        self._sets: dict[Hashable, _Shared] = {}

    def detail(self, value: Value) -> vm.AliasDetail | None:
        """The alias detail of a value; None for numbers and other types that are copied and never shared.

        All values with the same alias set get the same list objects, which must not be changed.
        """
        if not self.db.is_memory(value):
            return None
        key = self.db.same_alias_set(value)
        if key not in self._sets:
            others, writers = self.db.alias_set(value), self.db.writers(value)
            first = self.db.node_words(writers[0]) if writers else ""
            self._sets[key] = _Shared(others, [other.id for other in others], [node.id for node in writers], first)
        shared = self._sets[key]
        return vm.AliasDetail(summary=self._summary(value, shared), alias_set=shared.ids, writers=shared.writer_ids)

    def _summary(self, value: Value, shared: _Shared) -> str:
        name = f"%{self._names[value]}"
        others = list(islice((other for other in shared.values if other is not value), _MOST_NAMED))
        count = len(shared.values) - 1
        if not count:
            sentence = f"{name} shares memory with no other value"
        elif count == 1:
            sentence = f"{name} may share memory with %{self._names[others[0]]}, because {self.db.explain(value, others[0]).because}"
        else:
            listed = ", ".join(f"%{self._names[other]}" for other in others)
            more = f" and {count - _MOST_NAMED:,} more" if count > _MOST_NAMED else ""
            sentence = f"{name} may share memory with {listed}{more}"
        if not shared.writer_ids:
            return f"{sentence}. Nothing writes it."
        count = len(shared.writer_ids)
        who = shared.first_writer if count == 1 else f"{plural(count, 'node')}, {shared.first_writer} first"
        return f"{sentence}. It may be written by {who}."


# The memory of a program as a picture for a lecture: a line of the program is a row, a memory is a lane with its names, time goes down.
#
# A name stands in the lane of its memory, below the name that it was made from, with the op between them. A name that may be several
# memories has a lane of its own, with dashed lines to theirs; a container has lines to what it holds. Lanes that are over hand
# their column on. A row has one name, so no line crosses the name of another.

_ROW: Final = 46.0
_BOX: Final = 24.0
_EDGE: Final = 16.0
_LETTER: Final = 7.4  # The width of a letter of a name, in pixels; other letters are smaller.
_SMALL: Final = 6.7
_CHANNEL: Final = 10.0  # The distance between lines that pass names of their lane on the left.
_BAND: Final = 14.0  # The distance of the middle of a lane from the left edge of its names.
_GAP: Final = 34.0
_LEAST_WIDE: Final = 700.0
_MOST_ROWS: Final = 60
_MOST_NEAR: Final = 24
_MOST_NAMES: Final = 12  # The most names of one memory.
_LONGEST_TEXT: Final = 44

Lead = tuple[int, Literal["may", "holds", "writes"]]  # A memory beside the lane of a row, and what the line to it means.


@dataclass(eq=False)
class _Row:
    when: tuple[int, int]  # The line of the text, from 0, and the position among the names of that line.
    text: str
    place: int  # The class of its name; -1 for a write that makes none.
    label: str = ""
    value: Value | None = None
    node: Node | None = None
    op: str = ""
    source: Value | None = None  # The name that it was made from, in the same lane.
    writes: bool = False
    leads: list[Lead] = field(default_factory=list)
    on_path: set[int] = field(default_factory=set)  # The memories that the path leads to.
    steps: list[int] = field(default_factory=list)


@dataclass(eq=False)
class _Lane:
    first: int
    last: int
    cone: int
    column: int = 0
    x: float = 0.0


class MemoryPictures:
    """Draws the memory of one program; `rename` rewrites names in what is written."""

    def __init__(self, db: AliasDb, rename: Callable[[str], str] = str) -> None:
        self._db, self._graph, self._sealed = db, db.graph, db.sealed
        self._rename = rename
        self._alone: dict[int, Value] = {}

    def whole(self, widest: float = inf) -> vm.PointsToView:
        """All memories with several names, or that are written, held or pointed to; where these are too many or too wide, first those that
        are written, and last those that only have another name in a block."""
        edges = chain(self._sealed.targets.items(), self._inside.items())
        joined = {place for holder, held in edges for place in (holder, *held)}
        shared = [place for place, names in self._values.items() if len(names) > 1 or self._sealed.is_written[place] or place in joined]
        if not shared:
            apart = [value for value in self._graph.values() if self._db.is_memory(value)]
            return self._draw(apart[:_MOST_NAMES], "no two names share memory")
        is_made, most = self._graph.producer.__contains__, _MOST_ROWS
        ranked = sorted(shared, key=lambda place: (not self._sealed.is_written[place], not any(map(is_made, self._values[place][1:]))))
        while True:
            values: list[Value] = []
            for place in ranked:
                names = self._values[place][:_MOST_NAMES]
                if len(values) + len(names) <= most:
                    values += names
            left = sum(len(self._values[place]) for place in shared) - len(values)
            view = self._draw(values, f"and {plural(left, 'more name')}: select one to see its memory" if left else "")
            if view["width"] <= widest or most <= _MOST_NAMES:
                return view
            most -= 4

    def near(self, value: Value) -> vm.PointsToView:
        """The memory of one value: its names, what it may be or hold, and what else may be that."""
        own = self._place(value)
        values, left = list[Value](), 0
        for place in self._nearest(own):
            names = self._names_of(place)
            most = min(_MOST_NAMES, _MOST_NEAR - len(values))
            start = max(0, min(names.index(value) - most // 2, len(names) - most)) if place == own else 0
            values += names[start : start + most]
            left += max(0, len(names) - most)
        return self._draw(values, f"and {plural(left, 'more name')}" if left else "", subjects=(value,))

    def of(self, values: Sequence[Value], widest: float = inf) -> vm.PointsToView:
        """The whole program, at most so wide if that can be, the memory of a value, whether two may share memory, or where several are."""
        if len(values) < 3:
            return self.pair(values[0], values[1]) if len(values) == 2 else self.near(values[0]) if values else self.whole(widest)
        return self._draw([value for value in values if self._db.is_memory(value)][:_MOST_ROWS], "", subjects=values)

    def pair(self, a: Value, b: Value) -> vm.PointsToView:
        """The numbered path on which two values may share memory; for a no, all that each of them may be."""
        verdict = self._db.explain(a, b)
        if not verdict:
            return self._apart(a, b, verdict)
        steps = self._db.path(a, b)
        values = dict.fromkeys([a, b])
        for step in steps:
            ends = (step.source, step.target)
            values |= dict.fromkeys(end for label in ends if (end := label if isinstance(label, Value) else label.of) is not None)
        for place in dict.fromkeys(map(self._place, list(values))):
            for target in self._sealed.targets.get(place, ()):
                values |= dict.fromkeys(self._names_of(target)[:1])
        shown = [value for value in values if self._db.is_memory(value)]
        words = [path_step(step, self._rename) for step in steps]
        view = self._draw(shown, "", subjects=(a, b), path=steps)
        told = [f"{k}  {step['words']}" for k, step in enumerate(words, 1)] or [self._rename(verdict.because)]
        return self._said(view, f"{self._name(a)} and {self._name(b)} may share memory:", told, words)

    def _apart(self, a: Value, b: Value, verdict: Verdict) -> vm.PointsToView:
        """Two cones: each value, what it was made from, and what it may be."""
        cones: dict[int, int] = {}
        values: dict[Value, None] = {}
        for cone, value in ((1, a), (2, b)):
            if not self._db.is_memory(value):
                continue
            places = [self._place(value)]
            for place in places:  # grows during the loop
                places += [under for under in (*self._sealed.targets.get(place, ()), *self._inside.get(place, ())) if under not in places]
            cones |= {place: cones.get(place, cone) for place in places}
            made: Value | None = value
            while made is not None and len(values) < _MOST_NEAR:
                values[made] = None
                made = self._source(made)
            for place in places[: _MOST_NEAR // 2]:
                values |= dict.fromkeys(self._names_of(place)[:1])
        view = self._draw(list(values), "", subjects=(a, b), cones=cones, ends=(a, b))
        return self._said(view, f"{self._name(a)} and {self._name(b)} share no memory:", [self._rename(verdict.because)], [])

    # Names and classes

    @cached_property
    def _values(self) -> Mapping[int, list[Value]]:
        """The names of each class in the order of definition: several share an element if they are always the same object."""
        elements = ((self._sealed.element_of.get(value), value) for value in self._graph.values() if self._db.is_memory(value))
        return grouped((self._sealed.class_of[element], value) for element, value in elements if element is not None)

    @cached_property
    def _inside(self) -> Mapping[int, list[int]]:
        """The memories that containers hold: what may be several is passed through."""
        found: dict[int, list[int]] = {}
        for holder, held in self._db.reach.inside.items():
            waiting, known = list(held), set(held)
            for place in waiting:  # grows during the loop
                if place not in self._values or place in self._sealed.targets:
                    fresh = [target for target in self._sealed.targets.get(place, ()) if target not in known]
                    known.update(fresh)
                    waiting += fresh
            named = [place for place in waiting if place in self._values and place not in self._sealed.targets and place != holder]
            if named:
                found[holder] = named
        return found

    @cached_property
    def _above(self) -> Mapping[int, list[int]]:
        edges = chain(self._sealed.targets.items(), self._inside.items())
        return grouped((target, source) for source, targets in edges for target in targets)

    def _nearest(self, start: int) -> list[int]:
        """A class and those near it, breadth first, up to the limit of one picture."""
        places, found = [start], {start}
        for place in places:  # grows during the loop
            near = chain(self._sealed.targets.get(place, ()), self._inside.get(place, ()), self._above.get(place, ()))
            for other in near:
                if len(places) == _MOST_NEAR:
                    return places
                if other not in found:
                    found.add(other)
                    places.append(other)
        return places

    def _place(self, value: Value) -> int:
        """The class of a value; a number of its own for memory without another name."""
        element = self._sealed.element_of.get(value)
        if element is not None:
            return self._sealed.class_of[element]
        self._alone[-2 - value.id] = value
        return -2 - value.id

    def _names_of(self, place: int) -> list[Value]:
        alone = self._alone.get(place)
        return self._values.get(place, []) if alone is None else [alone]

    def _name(self, value: Value) -> str:
        return self._rename(f"%{self._graph.names[value]}")

    def _source(self, value: Value) -> Value | None:
        """The name of the same memory that a value was made from."""
        step = self._db.derived_from(value)
        if step is None or not isinstance(step.target, Value) or self._place(step.target) != self._place(value):
            return None
        return step.target

    # Rows and lanes

    def _when(self, value: Value) -> tuple[int, int]:
        node = self._graph.producer.get(value)
        if node is not None:
            return node_lines(self._graph)[node.id], node.outputs.index(value)
        if value in self._graph.inputs:
            return self._graph.inputs.index(value), 0
        block = self._graph.block_of[value]
        owner = self._graph.owner.get(block)
        return (node_lines(self._graph)[owner.id] + 1 if owner is not None else 0), block.params.index(value)

    def _row(self, value: Value) -> _Row:
        node = self._graph.producer.get(value)
        owner = None if node is not None else self._graph.owner.get(self._graph.block_of[value])
        given = f"in {short_op(owner.op)}" if owner is not None else f"input: {short_type(value.type)}"
        maker = node or owner
        return _Row(
            self._when(value), given if node is None else self._text(node), self._place(value), self._name(value), value, maker,
            short_op(maker.op) if maker is not None else "", self._source(value),
        )  # fmt: skip

    def _text(self, node: Node) -> str:
        """A line of the program without its types, its constants in place."""
        said = []
        for value in node.inputs:
            maker = self._graph.producer.get(value)
            is_constant = maker is not None and maker.op == "prim::Constant"
            said.append(str(maker.attrs.get("value", None)) if is_constant and maker is not None else self._name(value))
        text = ", ".join(said)
        whole = f"{short_op(node.op)}({text})"
        return whole if len(whole) <= _LONGEST_TEXT else f"{whole[: _LONGEST_TEXT - 3]}…)"

    def _rows(self, values: Iterable[Value], path: Sequence[Step]) -> list[_Row]:
        rows = [self._row(value) for value in dict.fromkeys(values)]
        rows.sort(key=lambda row: row.when)
        shown = {row.place for row in rows}
        begun: set[int] = set()
        goals = {self._place(step.target) for step in path if isinstance(step.target, Value)}
        for number, step in enumerate(path, 1):
            source = step.source if isinstance(step.source, Value) else step.source.of
            row = next((row for row in rows if row.value is source and source is not None), None)
            if row is None:  # two inputs may be one object: that is no line of the program
                continue
            row.steps.append(number)
            row.on_path = goals
            if isinstance(step.target, Value) and self._place(step.target) == row.place:
                row.source = step.target
        for row in rows:
            if row.place not in begun:
                begun.add(row.place)
                row.leads += [(place, "may") for place in self._sealed.targets.get(row.place, ()) if place in shown]
                row.leads += [(place, "holds") for place in self._inside.get(row.place, ()) if place in shown]
        return self._with_writes(rows, shown)

    def _with_writes(self, rows: list[_Row], shown: set[int]) -> list[_Row]:
        """Mark the rows that write, and add rows for writes that make no name here."""
        by_node = {row.node: row for row in reversed(rows) if row.value is not None and row.node is not None and not row.node.blocks}
        for write in self._sealed.writes:
            place = self._sealed.class_of[write.element]
            if place not in shown:
                continue
            row = by_node.get(write.node)
            if row is None:
                if len(rows) >= _MOST_ROWS:
                    continue
                row = by_node[write.node] = _Row((node_lines(self._graph)[write.node.id], 0), self._text(write.node), -1, node=write.node)
                rows.append(row)
            row.writes = True
            written = [target for target in self._sealed.targets.get(place, ()) if target in shown] or [place]
            known = {lead[0] for lead in row.leads if lead[1] == "writes"}
            row.leads += [(each, "writes") for each in written if each != row.place and each not in known]
        return sorted(rows, key=lambda row: row.when)

    def _draw(
        self, values: Iterable[Value], note: str, *, subjects: Sequence[Value] = (), path: Sequence[Step] = (),
        cones: Mapping[int, int] | None = None, ends: Sequence[Value] = (),
    ) -> vm.PointsToView:  # fmt: skip
        rows = self._rows(values, path)
        lanes = _lanes(rows, cones or {})
        number_of = {row.value: k for k, row in enumerate(rows) if row.value is not None}
        sources = [number_of.get(row.source) if row.source is not None else None for row in rows]
        margin = _EDGE + 40 + _SMALL * max((len(row.text) for row in rows), default=0) + 20
        heads = {cone: _SMALL * len(_cone_title(self._name(end))) + 4 for cone, end in enumerate(ends, 1)}
        channels, right = _place_columns(rows, lanes, sources, margin, heads)
        top = _EDGE + (44 if cones else 20)
        y = [top + k * _ROW + _BOX / 2 for k in range(len(rows))]
        arrows = list(_arrows(rows, lanes, sources, channels, y))
        boxes = [self._box(row, lanes[row.place], y[k], subjects) for k, row in enumerate(rows) if row.value is not None]
        kinds = {arrow["kind"] for arrow in arrows if arrow["points"]} | {box["kind"] for box in boxes}
        kinds |= {"writes"} if any(row.writes for row in rows) else set()
        told = [words.replace(" ", "\N{NO-BREAK SPACE}") for kind, words in _LEGEND.items() if kind in kinds]
        wide = max(_LEAST_WIDE, right + _EDGE)
        lines = [
            vm.PointsToLine(number=row.when[0] + 1, text=row.text, y=at, steps=row.steps, node=row.node.id if row.node is not None else 0)
            for row, at in zip(rows, y, strict=True)
        ]
        return vm.PointsToView(
            title=f"the memory of {self._graph.name}",
            boxes=boxes, arrows=arrows, lines=lines, steps=[],
            bands=[
                vm.PointsToBand(x=lane.x + _BAND, top=y[lane.first], bottom=y[lane.last] + (_BOX if lane.last > lane.first else 0))
                for lane in lanes.values()
            ],
            cones=_cone_frames(rows, lanes, [self._name(end) for end in ends], y) if cones else [],
            told=[note] if note else [], legend=wrap(" · ".join(told), int((wide - 2 * _EDGE) / 6.2)),
            width=wide, height=top + len(rows) * _ROW + 8,
        )  # fmt: skip

    def _box(self, row: _Row, lane: _Lane, y: float, subjects: Sequence[Value]) -> vm.PointsToBox:
        assert row.value is not None
        is_first = row.source is None and row.place not in self._sealed.targets
        outside = row.place in self._sealed.outside and row.value not in self._graph.producer
        return vm.PointsToBox(
            label=row.label, kind="outside" if outside else "location" if is_first else "name", record=row.value.id,
            x=lane.x, y=y - _BOX / 2, width=_width(row), writes=row.writes, subject=row.value in subjects,
        )  # fmt: skip

    def _said(self, view: vm.PointsToView, title: str, told: Sequence[str], steps: list[vm.PathStep]) -> vm.PointsToView:
        """The view with sentences below it, and as high as they need."""
        letters = int((view["width"] - 2 * _EDGE) / _SMALL)
        lines = [line for words in (title, *told) for line in wrap(shortened(words, 600), letters, subsequent_indent="   ")]
        return view | {"title": title.removesuffix(":"), "told": [*lines, *view["told"]], "steps": steps}


def path_step(step: Step, rename: Callable[[str], str] = str) -> vm.PathStep:
    return vm.PathStep(words=rename(step.words), node=step.node.id if step.node is not None else 0)


_LEGEND: Final = {
    "location": "green: a memory begins", "outside": "amber: memory from outside", "is": "arrow: is it, or a view of it",
    "may": "dashed: may be", "holds": "dotted: holds", "writes": "red: written here",
}  # fmt: skip


def _width(row: _Row) -> float:
    return len(row.label) * _LETTER + (34 if row.writes else 18)


def _lanes(rows: Sequence[_Row], cones: Mapping[int, int]) -> dict[int, _Lane]:
    """The first and last row of each memory, and the column of its lane: the first that is free."""
    lanes: dict[int, _Lane] = {}
    for k, row in enumerate(rows):
        for place in (row.place, *(lead[0] for lead in row.leads)):
            if place != -1:
                lane = lanes.setdefault(place, _Lane(k, k, cones.get(place, 0)))
                lane.last = k
    ends: list[tuple[int, int]] = []
    for lane in sorted(lanes.values(), key=lambda lane: (lane.cone, lane.first)):
        free = (k for k, (last, cone) in enumerate(ends) if last + 1 < lane.first and cone == lane.cone)
        lane.column = next(free, len(ends))
        ends[lane.column : lane.column + 1] = [(lane.last, lane.cone)]
    return lanes


def _place_columns(
    rows: Sequence[_Row], lanes: Mapping[int, _Lane], sources: Sequence[int | None], left: float, heads: Mapping[int, float]
) -> tuple[dict[int, int], float]:
    """Set the x of each lane; returns the channel of each row whose line passes other names of its lane, and the right edge.
    The first lane of a cone has room for its title."""
    column = [lanes[row.place].column if row.place != -1 else -1 for row in rows]
    spans = [(min(source, k), max(source, k), k) for k, source in enumerate(sources) if source is not None]
    needs = grouped((column[k], (a, b, k)) for a, b, k in spans if column[k] in column[a + 1 : b])
    channels: dict[int, int] = {}
    count: dict[int, int] = {}
    for at, wanted in needs.items():
        busy: list[tuple[int, int]] = []  # the source and the end of each channel
        for first, last, row in sorted(wanted):
            free = (c for c, (source, until) in enumerate(busy) if source == first or until < first)
            channel = next(free, len(busy))
            busy[channel : channel + 1] = [(first, last)]
            channels[row] = channel
        count[at] = len(busy)
    columns = max((lane.column for lane in lanes.values()), default=-1) + 1
    for at in range(columns):
        left += count.get(at, 0) * _CHANNEL
        mine = [row for row, where in zip(rows, column, strict=True) if where == at]
        here = [lane for lane in lanes.values() if lane.column == at]
        is_new = here[0].cone not in {lane.cone for lane in lanes.values() if lane.column < at}
        left += _GAP if here[0].cone == 2 and is_new else 0
        for lane in here:
            lane.x = left
        left += max([_reach(row) for row in mine] + [heads.get(here[0].cone, 0.0) if is_new else 2 * _BAND]) + _GAP
    spare = min(60.0, max(0.0, _LEAST_WIDE - _EDGE - left + _GAP) / max(1, columns))
    for lane in lanes.values():
        lane.x += spare * (lane.column + 0.5)
    return channels, left - _GAP + spare * columns


def _reach(row: _Row) -> float:
    """How far a row goes to the right of the edge of its lane: its name, or the op above it."""
    return max(_width(row), _BAND + 12 + _SMALL * len(row.op))


def _cone_title(name: str) -> str:
    return f"what {name} may be"


def _arrows(
    rows: Sequence[_Row], lanes: Mapping[int, _Lane], sources: Sequence[int | None], channels: Mapping[int, int], y: Sequence[float]
) -> Iterator[vm.PointsToArrow]:
    for k, (row, source) in enumerate(zip(rows, sources, strict=True)):
        lane = lanes[row.place] if row.place != -1 else None
        if lane is not None and row.op:
            middle, top = lane.x + _BAND, y[k] - _BOX / 2
            points: list[list[float]] = []
            if source is not None and k in channels:
                side = lane.x - 6 - channels[k] * _CHANNEL
                points = [[lane.x, y[source]], [side, y[source]], [side, y[k]], [lane.x, y[k]]]
            elif source is not None:
                half = _BOX / 2 if source < k else -_BOX / 2
                points = [[middle, y[source] + half], [middle, y[k] - half]]
            is_step = source is not None and rows[source].value is row.source and bool(row.steps)
            yield vm.PointsToArrow(kind="is", label=row.op, points=points, x=middle + 8, y=top - 7, step=row.steps[0] if is_step else 0)
        sides: set[bool] = set()
        for place, kind in row.leads:
            goal = lanes[place].x + _BAND
            is_right = lane is not None and goal > lane.x
            start = goal if lane is None else lane.x + _width(row) if is_right else lane.x
            label = "" if kind != "holds" or is_right in sides else "holds"
            sides.add(is_right)
            at = start + 6 if is_right else start - 6 - _SMALL * len(label)
            step = row.steps[0] if place in row.on_path else 0
            yield vm.PointsToArrow(kind=kind, label=label, points=[[start, y[k]], [goal, y[k]]], x=at, y=y[k] - 5, step=step)


def _cone_frames(rows: Sequence[_Row], lanes: Mapping[int, _Lane], names: Sequence[str], y: Sequence[float]) -> list[vm.PointsToCone]:
    frames = []
    for cone, name in enumerate(names, 1):
        mine = [k for k, row in enumerate(rows) if row.place != -1 and lanes[row.place].cone == cone]
        if mine:
            left, label = min(lanes[rows[k].place].x for k in mine) - 14, _cone_title(name)
            wide = max(lanes[rows[k].place].x + _reach(rows[k]) for k in mine) + 12 - left
            high = y[-1] - y[0] + _BOX + 52
            frames.append(
                vm.PointsToCone(label=label, x=left, y=y[0] - _BOX / 2 - 42, width=max(wide, _SMALL * len(label) + 18), height=high)
            )
    return frames
