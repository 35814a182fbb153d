"""Which pieces are the same: the ladder, the classes of each step as cards, and for one class its holes, its cost and two members
side by side. The cost of an answer is proportional to its size; the classes of a step are computed on request."""

from collections import Counter
from collections.abc import Container, Mapping, Sequence
from functools import cached_property
from typing import Any, Final

from irscope._base.words import plural, shortened
from irscope.errors import UnknownNumber
from irscope.ir import Node
from irscope.report import view_models as vm
from irscope.report.panes.beside_view import beside_view
from irscope.report.repeats import scope_of, told_apart
from irscope.report.words import short_op, short_type
from irscope.transforms.dedup import GIVES_UP, RANK, RELATIONS, Dedup, Match, Piece, Relation, SlotPair, format_payload, meeting, same_bits
from irscope.transforms.dedup.rewrite import ClassHoles, HoleRow, Recommendation, class_holes, cost_of, proof

# Equivalence classes of fusion groups, the largest first.


def class_views(dedup: Dedup) -> list[vm.ClassView]:
    """One view per class of groups; empty for a program without groups."""
    table = dedup.table()
    views = []
    for cls in dedup.classes:
        if not isinstance(cls.representative, Node):
            continue
        results = ", ".join(short_type(value.type) for value in cls.representative.outputs[:3])  # classes may have the same ops
        views.append(
            vm.ClassView(
                index=cls.index, label=f"{table['ops'].loc[cls.index]} → {results}",
                members=[member.id for member in cls.members if isinstance(member, Node)],
            )
        )  # fmt: skip
    return views


def with_coarser_steps(views: Sequence[vm.ClassView], dedup: Dedup) -> list[vm.CoarserStep]:
    """Record in each view its class at each coarser step, and return these steps."""
    steps = RELATIONS[RANK[dedup.relation] + 1 :]
    numbers = [{member: k for k, members in enumerate(dedup.members(step)) for member in members} for step in steps]
    for view in views:
        leader = dedup.classes[view["index"]].representative
        view["coarser"] = [number[leader] for number in numbers]
    return [vm.CoarserStep(step=step, gives_up=GIVES_UP[step]) for step in steps]


def class_sentence(dedup: Dedup, number: int) -> str:
    """The class of a group, by its number, and the step of the ladder at which it merges with others."""
    cls = dedup.classes[number]
    if len(cls) == 1:
        sentence = f"class {cls.index}: no other group is the same by relation {dedup.relation!r}"
    else:
        sentence = f"class {cls.index}: {plural(len(cls), 'group')} are the same by relation {dedup.relation!r}, matched value by value"
    for step in RELATIONS[RANK[dedup.relation] + 1 : RANK["layout"]]:
        size = dedup.size_by(step, cls.representative)
        if size > len(cls):
            many = f"one of {size} that may share a kernel"
            return f"{sentence}. From step {step!r} on it is {many}; sharing it gives up {GIVES_UP[step]}"
    return sentence


_MOST_CARDS: Final = 300
_MOST_COSTS: Final = 24  # The most cards whose cost is computed at once; others on request.
_MOST_MEMBERS: Final = 200
_MOST_COLUMNS: Final = 24
_MOST_HOLES: Final = 80
_STORED: Final = 6  # The most classes per step stored in a page without Python.
_Members = tuple[Node | str, ...]


class SameViews:
    """The views of one `Dedup`; `known` are the ids of the program shown."""

    def __init__(self, dedup: Dedup, known: Container[int]) -> None:
        self._of = dedup
        self._known = known
        self._sorted: dict[Relation, list[_Members]] = {}

    def view(self) -> vm.SameView:
        """The ladder; steps and classes are sent on request."""
        ladder = [
            vm.LadderStep(
                step=str(step), pieces=int(row["pieces"]), classes=int(row["classes"]), ops=int(row["ops saved"]),
                seconds=float(row["compile s saved"]), measured=row["time is"] == "measured", gives_up=str(row["gives up"]),
            )
            for step, row in self._of.ladder().iterrows()
        ]  # fmt: skip
        return vm.SameView(step=self._of.relation, note=self._of.note, ladder=ladder, steps={}, classes={})

    def stored(self) -> vm.SameView:
        """The same with the classes of every step, the largest in full, for a page without Python."""
        view = self.view()
        for relation in RELATIONS:
            step = view["steps"][relation] = self.step(relation)
            for place, card in enumerate(step["cards"][:_STORED]):
                if card["count"] > 1:
                    view["classes"][f"{relation} {place}"] = self.cls(relation, place)
        return view

    def _classes(self, step: Relation) -> list[_Members]:
        if step not in self._sorted:
            self._sorted[step] = sorted(self._of.members(step), key=lambda members: -len(members))
        return self._sorted[step]

    def step(self, step: Relation) -> vm.SameStep:
        classes = self._classes(step)
        cards = [self._card(step, members, place) for place, members in enumerate(classes[:_MOST_CARDS])]
        return vm.SameStep(cards=cards, left_out=len(classes) - len(cards))

    def _card(self, step: Relation, members: _Members, place: int) -> vm.SameCard:
        leader = self._of.piece(members[0])
        ops = Counter(short_op(node.op) for node in leader.nodes)
        listed = [op if count == 1 else f"{op} ×{count}" for op, count in ops.most_common(6)]
        label = " · ".join(listed) + (" …" if len(ops) > 6 else "")
        shown, values = members[:_MOST_MEMBERS], leader.block.returns
        kinds = ", ".join(short_type(value.type) for value in values[:4]) + (", …" if len(values) > 4 else "")
        with_cost = len(members) > 1 and place < _MOST_COSTS
        return vm.SameCard(
            label=shortened(label, 200) or leader.label, detail=shortened(f"→ {kinds}" if kinds else leader.label, 200), count=len(members),
            ops=len(leader.nodes),
            members=[shortened(name, 200) for name in self._called(shown)], selects=[self._ids(member) for member in shown],
            cost=self._cost(step, members) if with_cost else None,
        )  # fmt: skip

    def _called(self, members: _Members) -> list[str]:
        """The members by the paths of their modules, without what all begin with; with their results where a module has several."""
        paths = [scope_of(member) if isinstance(member, Node) else "" for member in members]
        labels = [self._of.piece(member).label for member in members]
        if not all(paths):
            return labels
        several, short = Counter(paths), told_apart(paths)
        return [name if several[path] == 1 else f"{name} {label}" for path, name, label in zip(paths, short, labels, strict=True)]

    def _ids(self, member: Node | str) -> list[int]:
        if isinstance(member, Node):
            return [member.id] if member.id in self._known else []
        place = self._of.regions.place_of.get(member) if self._of.regions is not None else None
        nodes = place[0].places[place[1]] if place is not None else ()
        return [node.id for node in nodes if node.id in self._known]

    @cached_property
    def _kind(self) -> Mapping[Node | str, int]:
        """A number per member, equal for members that are equal up to names and so have the same value in every hole."""
        return {member: kind for kind, members in enumerate(self._of.members("alpha")) for member in members}

    def _holes(self, step: Relation, members: _Members) -> ClassHoles:
        """The holes of the members that differ in more than names: a thousand copies are examined once."""
        first: dict[int, Node | str] = {}
        for member in members:
            first.setdefault(self._kind[member], member)
        return class_holes([self._of.piece(member) for member in first.values()], step)

    def _columns(self, found: ClassHoles, members: _Members) -> list[int]:
        """The column of each member; a member whose correspondence cannot be proven again is left out."""
        column = {self._kind[piece.member]: place for place, piece in enumerate(found.members)}
        kinds = [self._kind[member] for member in members]
        return [column[kind] for kind in kinds if kind in column]

    def _cost(self, step: Relation, members: _Members) -> vm.CostView:
        found = self._holes(step, members)
        cost = cost_of(found, {}, [found.members[column] for column in self._columns(found, members)])
        return vm.CostView(
            bodies=cost.bodies, ops=cost.ops, bytes=cost.bytes, seconds=cost.compile_seconds, parameters=cost.parameters,
            lost=list(cost.lost), slowdown=cost.slowdown,
        )  # fmt: skip

    def _members(self, step: Relation, place: int) -> _Members:
        classes = self._classes(step)
        if not 0 <= place < len(classes):
            raise UnknownNumber(f"step {step!r} has no class {place}", hint=f"it has {len(classes)}, counted from 0")
        return classes[place]

    def cls(self, step: Relation, place: int) -> vm.SameClass:
        """A class in full. Raises UnknownNumber."""
        members = self._members(step, place)
        found = self._holes(step, members)
        rows, columns = found.rows[:_MOST_HOLES], self._columns(found, members[:_MOST_COLUMNS])
        return vm.SameClass(
            members=[shortened(name, 200) for name in self._called(members[:_MOST_COLUMNS])],
            holes=[self._line(row, columns) for row in rows], holes_left_out=len(found.rows) - len(rows),
            cost=self._cost(step, members) if len(members) > 1 else None,
            advice=self._advice(members), beside=self._beside(step, members, found, 0, 1) if len(members) > 1 else None,
        )  # fmt: skip

    def _line(self, row: HoleRow, columns: Sequence[int]) -> vm.HoleLine:
        subject = row.site.subject
        return vm.HoleLine(
            place=shortened(row.place, 120), kind=row.kind, told=row.dependence, varies=row.parameter is not None,
            values=[shortened(format_payload(row.values[column]), 60) for column in columns],
            node=subject.id if isinstance(subject, Node) and subject.id in self._known else 0,
        )  # fmt: skip

    def beside(self, step: Relation, place: int, left: int, right: int) -> vm.BesideView:
        """Two members of a class side by side, given by position. Raises UnknownNumber."""
        members = self._members(step, place)
        for number in (left, right):
            if not 0 <= number < len(members):
                raise UnknownNumber(f"the class has no member {number}", hint=f"it has {len(members)}, counted from 0")
        return self._beside(step, members, self._holes(step, members), left, right)

    def _beside(self, step: Relation, members: _Members, found: ClassHoles, left: int, right: int) -> vm.BesideView:
        """Marked with the rows of the class's table, which are places in its first member; of two others with their own."""
        one, other = self._of.piece(members[left]), self._of.piece(members[right])
        met = proof(one, other, step)
        columns = self._columns(found, (members[right],))
        if left != 0 or met is None or not columns:
            return self.pair(one, other)
        pairs = [SlotPair(row.kind, row.site, row.values[0], row.values[columns[0]]) for row in found.rows if row.parameter is not None]
        return self._two(one, other, met, pairs)

    def pair(self, one: Piece, other: Piece) -> vm.BesideView:
        """Any two pieces side by side, at the finest step at which they meet; where they never do, as far as their ops are alike."""
        met = meeting(one, other)
        pairs = [] if met is None else [slot for slot in met.slots if not same_bits(slot.left, slot.right)]
        return self._two(one, other, met, pairs)

    def _two(self, one: Piece, other: Piece, met: Match | None, pairs: Sequence[SlotPair]) -> vm.BesideView:
        heads = self._called((one.member, other.member))
        because = "the same piece" if one is other else self._of.why_not(one.member, other.member).because
        because = because.replace(f"{one.label} and {other.label}", " and ".join(heads), 1)
        return beside_view(one, other, met, pairs, heads, because)

    @cached_property
    def _recommended(self) -> Recommendation:
        return self._of.recommend()

    def _advice(self, members: _Members) -> str:
        choice = next((choice for choice in self._recommended.choices if members[0] in choice.members), None)
        if choice is None:
            return "No step is recommended: none joins it with others within a slowdown of 5 %." if len(members) > 1 else ""
        return f"Recommended is step {choice.step!r}, which joins {len(choice.members)}: {choice.because}."

    def answer(self, ask: Mapping[str, Any]) -> Mapping[str, Any]:
        """What a page asks for: the ladder, a step, a class, two of its members, or two pieces by ids of the program."""
        if "ids" in ask:
            one, other = (self._of.piece(self._named(int(id))) for id in ask["ids"])
            return {"beside": self.pair(one, other)}
        if "step" not in ask:
            return {"same": self.view()}
        step: Relation = ask["step"]
        if "place" not in ask:
            return {"step": self.step(step)}
        if "left" in ask:
            return {"beside": self.beside(step, int(ask["place"]), int(ask["left"]), int(ask["right"]))}
        return {"cls": self.cls(step, int(ask["place"]))}

    @cached_property
    def _by_id(self) -> dict[int, Node | str]:
        members = [member for members in self._of.members("text") for member in members]
        return {id: member for member in members for id in self._ids(member)}

    def _named(self, id: int) -> Node | str:
        if id not in self._by_id:
            raise UnknownNumber(f"the record {id} is not a piece that was compared", hint=self._of.note)
        return self._by_id[id]
