"""Which pieces of a program are the same, by each relation of the ladder, and what keeps the others apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from irscope._base.concurrency.cached import cached_property
from irscope._base.figures import Drawn
from irscope._base.verdict import Verdict, no, yes
from irscope._base.words import plural
from irscope.errors import ArgumentError, UnknownName, UnknownNumber, loading
from irscope.ir import Graph, Module, Node, Value
from irscope.transforms.dedup import regions as repeated
from irscope.transforms.dedup import rewrite  # both load what is asked of them
from irscope.transforms.dedup.classes import Ladder, Members
from irscope.transforms.dedup.holes import first_told
from irscope.transforms.dedup.piece import Piece
from irscope.transforms.dedup.relations import differences, excerpt, meeting
from irscope.transforms.dedup.steps import GIVES_UP, RANK, RELATIONS, Relation
from irscope.transforms.dedup.units import KernelPieces

if TYPE_CHECKING:
    import pandas as pd

    from irscope.transforms.dedup.regions import RegionPieces
    from irscope.transforms.dedup.rewrite import Applied, ClassHoles, Recommendation

__all__ = ["Dedup", "EquivalenceClass", "known_relation"]


@dataclass(frozen=True)
class EquivalenceClass:
    """Pieces that are the same by one relation; every one was matched with the representative value by value."""

    index: int
    """Place among the classes, the largest class first."""
    members: tuple[Node | str, ...]
    """Group nodes, or names of graphs, in program order."""
    representative: Node | str
    """The first member."""
    _fingerprint: Callable[[], bytes] = field(repr=False, compare=False)

    @cached_property
    def fingerprint(self) -> str:
        """Of the canonical form, in hexadecimal; stable between runs."""
        return self._fingerprint().hex()

    def __len__(self) -> int:
        return len(self.members)

    def __iter__(self) -> Iterator[Node | str]:
        return iter(self.members)

    def __contains__(self, piece: object) -> bool:
        return piece in self.members

    def __getitem__(self, place: int) -> Node | str:
        return self.members[place]


@dataclass(frozen=True, eq=False)
class Dedup(Drawn):
    """The pieces of a program and their classes."""

    source: Graph | Module
    relation: Relation
    classes: tuple[EquivalenceClass, ...]
    """By number of members, the largest first; then in program order."""
    note: str
    """What the pieces are, one sentence."""
    _ladder: Ladder = field(repr=False)
    _dedup: Callable[..., Dedup] = field(repr=False)
    """What sorted the pieces, for those inside of them."""
    regions: RegionPieces | None = field(default=None, repr=False)
    """The regions whose places the pieces are, if they are."""
    kernels: KernelPieces | None = field(default=None, repr=False)
    """The generated kernels that the pieces are, if they are."""

    @property
    def _pieces(self) -> Mapping[Node | str, Piece]:
        return self._ladder.pieces

    def ladder(self, executable: Any = None) -> pd.DataFrame:
        """One row for each relation: how many classes there are, what one body for each would save, and what it gives up.

        The numbers of classes can only fall from row to row. Seconds of compiling are what the kernels of an `executable` of this
        graph took, if it is given, and estimated otherwise. Of generated kernels they are measured, and a last row, which is no
        step, counts those of one machine code.
        """
        with loading("pandas"):
            import pandas as pd

        rows, seconds = [], self._seconds(executable)
        sizes: dict[Node | str, tuple[int, int, float]] = {}
        for members in self._ladder.classes("alpha"):  # what is the same but for names is as large
            leader = self._pieces[members[0]]
            ops, text = len(leader.nodes), rewrite.text_bytes(leader)
            sizes.update({m: (ops, text, rewrite.compile_seconds(self._pieces[m], seconds)) for m in members})
        steps = [(str(relation), self._ladder.classes(relation), GIVES_UP[relation]) for relation in RELATIONS]
        if self.kernels is not None:
            steps.append(("machine code", self.kernels.codes, "nothing: what became of them is the same"))
        for relation, classes, cost in steps:
            rest = [sizes[member] for members in classes for member in members[1:]]
            ops, text, spent = (
                sum(each[0] for each in rest),
                sum(each[1] for each in rest),
                sum(each[2] for each in rest),
            )
            largest = max(map(len, classes), default=0)
            rows.append([relation, len(self._pieces), len(classes), largest, ops, text, spent, bool(seconds), cost])
        columns = [
            "relation", "pieces", "classes", "largest", "ops saved", "text bytes saved", "compile s saved", "measured", "gives up",
        ]  # fmt: skip
        return pd.DataFrame(rows, columns=columns).set_index("relation")

    def table(self) -> pd.DataFrame:
        """One row per class: how many members, how large, what they compute, where the first one is."""
        with loading("pandas"):
            import pandas as pd

        rows = []
        for cls in self.classes:
            piece = self._pieces[cls.representative]
            ops = [node.op for node in piece.nodes]
            rows.append({
                "class": cls.index, "members": len(cls), "nodes": len(ops), "ops": _told_ops(ops),
                "representative": piece.label, "fingerprint": cls.fingerprint,
            })  # fmt: skip
        columns = ["class", "members", "nodes", "ops", "representative", "fingerprint"]
        made = pd.DataFrame(rows, columns=columns).set_index("class")
        if self.kernels is not None:
            code = {name: place for place, names in enumerate(self.kernels.codes) for name in names}
            made["machine codes"] = [len({code[str(member)] for member in cls.members}) for cls in self.classes]
        return made

    def members(self, relation: Relation) -> list[Members]:
        """The members of each class by any relation, in program order of the first. Raises ArgumentError."""
        return self._ladder.classes(known_relation(relation))

    def class_of(self, piece: Node | Value | str) -> EquivalenceClass:
        """The class of a piece; a group also goes by the name of a result, a node or value inside it by its group."""
        return self._class_of[self._member(piece)]

    def piece(self, name: Node | Value | str) -> Piece:
        """A piece as `match` takes it; a group also goes by the name of a result."""
        return self._pieces[self._member(name)]

    def difference(self, a: Node | Value | str, b: Node | Value | str) -> Verdict:
        """Whether two pieces are the same by this relation, and if not, in which places they differ.

        The witness holds the `Hole`s: all of them when both are built alike, otherwise the first structural one.
        """
        left, right = self.piece(a), self.piece(b)
        met = meeting(left, right)
        if met is not None and RANK[met.step] <= RANK[self.relation]:
            told = f"{left.label} and {right.label} are the same by relation {self.relation!r}"
            return yes(f"{told}: {plural(len(met.values), 'value')} correspond one to one")
        both = f"{left.label} and {right.label}"
        late = "" if self.kernels is None else self.kernels.late(left.member, right.member)
        if met is not None and met.holes:
            places = "one place" if len(met.holes) == 1 else f"{len(met.holes)} places"
            return no(f"{both} differ in {places}: {first_told(met.holes)}{late}", *met.holes)
        found = differences(left, right, self.relation if met is not None else RELATIONS[-1])
        if met is not None:
            return no(f"{both} differ in {GIVES_UP[met.step]}: {first_told(found.holes)}{late}", *found.holes)
        holes = found.holes[-1:] if not found.alike else found.holes
        where = excerpt(left, right, found.apart)
        return no(f"{both} are built differently: {first_told(holes)}{where}{late}", *holes)

    def why_not(self, a: Node | Value | str, b: Node | Value | str) -> Verdict:
        """Whether two pieces are the same by this relation; if not, by which they are, and what would have to be given up."""
        left, right = self.piece(a), self.piece(b)
        met = meeting(left, right)
        if met is None or RANK[met.step] <= RANK[self.relation]:
            return self.difference(a, b)
        cost = f"which gives up {GIVES_UP[met.step]}"
        where = f": {first_told(met.holes)}" if met.holes else ""
        late = "" if self.kernels is None else self.kernels.late(left.member, right.member)
        return no(
            f"{left.label} and {right.label} are the same only from step {met.step!r} on, {cost}{where}{late}",
            met.step,
            *met.holes,
        )

    def holes(self, cls: EquivalenceClass | Node | Value | int | str) -> pd.DataFrame:
        """One row for each place in which members of a class may differ, one column for each member, and what it depends on:
        a parameter of its own, another place's, or nothing because it is equal everywhere.

        A class goes by itself, by its number or by a piece in it. Raises UnknownNumber or UnknownName for one that there is not.
        """
        return self.class_holes(cls).table()

    def class_holes(self, cls: EquivalenceClass | Node | Value | int | str) -> ClassHoles:
        """The same as records."""
        return rewrite.class_holes([self._pieces[member] for member in self._class(cls).members], self.relation)

    def recommend(self, *, budget: float = 0.05, executable: Any = None, measure: bool = False) -> Recommendation:
        """The coarsest step for each class that costs no more than `budget` of its run time, with what it saves and gives up.

        `overrule` changes it, `apply` takes it. An `executable` of this graph says what its kernels took to compile. The slowdown
        is estimated; with `measure=True` the executable runs members of each class with kernels of their own and with the common
        one, about a tenth of a second for each, and the measured slowdown decides. Raises ArgumentError where nothing can be run.
        """
        runs = executable if measure else None
        if measure and (not isinstance(self.source, Graph) or self.regions is not None or not hasattr(executable, "slowdown")):
            what = "slowdowns are measured on the fusion groups of a graph that was compiled"
            raise ArgumentError(what, hint="irs.dedup(f).recommend(executable=irs.compile(f), measure=True), for f = irs.fuse(graph)")
        price = rewrite.Price(self._seconds(executable), self.source if isinstance(self.source, Graph) else None, runs)
        return rewrite.recommended(self._ladder, budget=budget, price=price, why_not=self._why_not_one_body(), named=self._member)

    def _why_not_one_body(self) -> Callable[[Members, Relation], str]:
        """What says why one piece cannot stand for a class, or nothing: functions and executables have callers, groups have none."""
        if not isinstance(self.source, Module) or self.kernels is not None or self._ladder.holds_groups:
            return lambda members, step: ""
        return rewrite.obstacles(self.source, self._ladder)

    def apply(self, step: Relation | Recommendation | None = None) -> Graph | Module:
        """The program with one body for each class of a step (by default this relation): holes are parameters, and callers pass
        what stands in them.

        The fusion groups of a class get one body, whichever functions of a module they are in; of functions and executables one
        takes the place of the others. What cannot be merged stays as it is; `applied` says why.
        """
        return self.applied(step).program

    def applied(self, step: Relation | Recommendation | None = None) -> Applied:
        """The same with what was done to each class, and why what was not done."""
        if self.kernels is not None:
            what = "kernels are generated: it is the groups that they come from which get one body"
            raise ArgumentError(what, hint='irs.dedup(executable, unit="groups").apply(step), then irs.compile')
        if isinstance(step, rewrite.Recommendation):
            chosen = dict(step.chosen)
        else:
            relation = known_relation(self.relation if step is None else step)
            chosen = dict.fromkeys(self._ladder.classes(relation), relation)
        if self.regions is not None and isinstance(self.source, Graph):
            return _outlined(self.source, self.regions, chosen)
        return rewrite.apply_classes(self.source, self._ladder, chosen)

    def inside(self, cls: EquivalenceClass | Node | Value | int | str, *, unit: Literal["regions", "scopes"] = "regions") -> Dedup:
        """What repeats within one member of a class, its representative: the heads of a layer. The pieces are those of the
        representative's body as a graph of its own. Raises UnknownNumber for a class that there is not."""
        piece = self._pieces[self._class(cls).representative]
        name = piece.member if isinstance(piece.member, str) else piece.graph.name
        graph = Graph(piece.block, name, functional=piece.graph.functional)
        return self._dedup(graph, relation=self.relation, unit=unit)

    def _class(self, cls: EquivalenceClass | Node | Value | int | str) -> EquivalenceClass:
        if isinstance(cls, EquivalenceClass):
            if not all(member in self._pieces for member in cls.members):
                what = "the class is one of another program"
                raise UnknownName(what, hint=f"the classes of this one are d.classes, {len(self.classes)} of them")
            return cls
        if not isinstance(cls, int):
            return self.class_of(cls)
        if not 0 <= cls < len(self.classes):
            raise UnknownNumber(f"there is no class {cls}", hint=f"there are {len(self.classes)}, counted from 0")
        return self.classes[cls]

    def _seconds(self, executable: Any) -> Mapping[Any, float]:
        if executable is not None and not hasattr(executable, "kernels"):
            what = f"compile times are those of an executable, not of {type(executable).__name__}"
            raise ArgumentError(what, hint="d.ladder(irs.compile(fusion)), for d = irs.dedup(fusion)")
        return self.kernels.seconds if self.kernels is not None else rewrite.measured_seconds(executable)

    @cached_property
    def _class_of(self) -> dict[Node | str, EquivalenceClass]:
        return {member: cls for cls in self.classes for member in cls.members}

    def _member(self, piece: Node | Value | str) -> Node | str:
        if isinstance(piece, Node | str) and piece in self._pieces:
            return piece
        if self.kernels is not None:
            return self.kernels.named(piece)
        if self.regions is not None and isinstance(self.source, Graph):
            return _region_of(self.source, self.regions, piece)
        if isinstance(self.source, Module) or isinstance(next(iter(self._pieces), ""), str):
            raise UnknownName(f"there is no piece {piece!r}", hint=f"the pieces are {_some(self._pieces)}")
        graph = self.source
        node: Node | None = graph.producer.get(graph.value(piece)) if isinstance(piece, Value) else graph.node(piece)
        while node is not None and node not in self._pieces:
            node = graph.owner.get(graph.block_of[node])
        if node is None:
            raise UnknownName(f"{piece!r} is not in a fusion group", hint="the members of .classes are the groups")
        return node

    def __len__(self) -> int:
        return len(self.classes)

    def __iter__(self) -> Iterator[EquivalenceClass]:
        return iter(self.classes)

    def __repr__(self) -> str:
        pieces = plural(len(self._pieces), "piece")
        return f"<Dedup by {self.relation!r}: {pieces}, {plural(len(self.classes), 'class', 'classes')}>"


def known_relation(relation: Relation) -> Relation:
    if relation not in RELATIONS:
        raise ArgumentError(f"there is no relation {relation!r}", hint=f"choose one of {', '.join(RELATIONS)}")
    return relation


def _outlined(graph: Graph, regions: RegionPieces, classes: Mapping[Members, Relation]) -> Applied:
    """The regions of each class as a function, and what stays as it is, and why."""
    repeats = regions.chosen(classes)
    module, remarks = repeated.outline_nested(graph, repeats, regions.find)
    covered = {node for repeat in repeats for place in repeat.places for node in place}
    steps = ", ".join(repr(str(step)) for step in dict.fromkeys(classes.values())) or "what was chosen"
    apart = [
        f"missed {plural(repeat.size, 'node')} ×{len(repeat)} ({repeat.labels[0]}, …): "
        f"by {steps} no two of its {plural(len(repeat), 'place')} are the same"
        for repeat in regions.repeats if covered.isdisjoint(node for place in repeat.places for node in place)
    ]  # fmt: skip
    why = "in the order that memory and effects ask for, not every place can run as one step, or places wait for each other"
    left = [
        f"missed {_some(members)}: {why}"
        for members in classes if len(members) > 1 and not all(covered.issuperset(regions.nodes(name)) for name in members)
    ]  # fmt: skip
    return rewrite.Applied(module, (*remarks, *apart, *left), None)


def _region_of(graph: Graph, regions: RegionPieces, piece: Node | Value | str) -> str:
    """The region that a node or a value is in, by itself or by name."""
    known = {value: node for node in regions.name_of for value in node.outputs}
    node = piece if isinstance(piece, Node) else known.get(graph.value(piece)) if _is_value(graph, piece) else None
    name = regions.name_of.get(node) if node is not None else None
    if name is None:
        raise UnknownName(f"{piece!r} is in no repeated region", hint=f"the pieces are {_some(regions.pieces)}")
    return name


def _is_value(graph: Graph, piece: Value | str) -> bool:
    return isinstance(piece, Value) or piece.removeprefix("%") in graph.names.values()


def _told_ops(ops: list[str]) -> str:
    """The ops with their counts, the most frequent first."""
    return ", ".join(
        op.partition("::")[2] + (f" ×{count}" if count > 1 else "") for op, count in Counter(ops).most_common(8)
    )


def _some(pieces: Iterable[Node | str]) -> str:
    members = list(pieces)
    return ", ".join(map(repr, members[:5])) + (", …" if len(members) > 5 else "")
