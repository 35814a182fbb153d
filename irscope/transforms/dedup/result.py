"""Sorts the pieces of a program into classes, and answers questions about them: `Dedup` for every unit, constants included."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal, get_args

from irscope._base.results import Drawn, Numbered, Verdict, yes
from irscope._base.running import without_collector
from irscope._base.words import each, plural
from irscope.errors import ArgumentError, UnknownName, new_table, public
from irscope.ir import Graph, Module, Node, Value
from irscope.ir.module import entry
from irscope.transforms.base import PassRecord
from irscope.transforms.dedup import rewrite  # which loads its names lazily
from irscope.transforms.dedup.classes import KernelPieces, Ladder, Members, kernel_pieces, pieces_of
from irscope.transforms.dedup.constants import Constants, ConstantStep, find_constants, known_step, merge_constants, merge_constants_of_all
from irscope.transforms.dedup.form import fingerprint
from irscope.transforms.dedup.matching import differences, excerpt, meeting
from irscope.transforms.dedup.piece import GIVES_UP, RANK, RELATIONS, Piece, Relation, format_holes, format_ops, known_relation

if TYPE_CHECKING:
    import pandas as pd

    from irscope.transforms.dedup.rewrite import ClassHoles, Recommendation, RegionPieces


@dataclass(frozen=True)
class EquivalenceClass:
    """Pieces that are the same by one relation; each was matched with the representative value by value."""

    index: int
    """The place among the classes, the largest class first."""
    members: tuple[Node | str, ...]
    """Group nodes, or names of graphs, in program order."""
    representative: Node | str
    """The first member; of constants, the one to keep."""
    _fingerprint: Callable[[], bytes] = field(repr=False, compare=False)
    bytes_saved: int = 0
    """The bytes of constants that need not be stored."""

    @cached_property
    def fingerprint(self) -> str:
        """The fingerprint of the canonical form, in hexadecimal; stable between runs."""
        return self._fingerprint().hex()

    def __len__(self) -> int:
        return len(self.members)

    def __iter__(self) -> Iterator[Node | str]:
        return iter(self.members)

    def __contains__(self, piece: object) -> bool:
        return piece in self.members

    def __getitem__(self, place: int) -> Node | str:
        return Numbered.of(self.members, "member", str)[place]


@dataclass(frozen=True)
class Applied:
    """The program after merging classes, so that each has one body, and the remarks."""

    program: Graph | Module
    remarks: tuple[str, ...]
    """One line for each class or piece: what was done, or why not."""
    record: PassRecord | None
    """The pass record, if the program is a graph."""

    @property
    def graph(self) -> Graph | Module:
        """The program, for functions that take results in place of programs."""
        return self.program


@dataclass(frozen=True, eq=False)
class Dedup(Drawn):
    """The pieces of a program and their classes."""

    source: Graph | Module
    relation: Relation | ConstantStep
    classes: tuple[EquivalenceClass, ...]
    """The classes by number of members, the largest first; then in program order. Those of constants by bytes saved first."""
    note: str
    """One sentence that says what the pieces are."""
    _ladder: Ladder = field(repr=False)
    regions: RegionPieces | None = field(default=None, repr=False)
    """The repeated regions, if the pieces are their places."""
    kernels: KernelPieces | None = field(default=None, repr=False)
    """The generated kernels, if the pieces are kernels."""
    constants: Constants | None = field(default=None, repr=False)
    """The constants, if the pieces are constants."""

    def __post_init__(self) -> None:
        pieces = self._ladder.pieces

        def called(cls: EquivalenceClass) -> str:
            first = cls.representative
            return f"{pieces[first].label if first in pieces else first} ×{len(cls)}"

        object.__setattr__(self, "classes", Numbered.of(self.classes, "class", called))

    @property
    def _pieces(self) -> Mapping[Node | str, Piece]:
        return self._ladder.pieces

    def ladder(self, executable: Any = None) -> pd.DataFrame:
        """One row for each relation: the number of classes, what one body for each would save, and what it gives up.

        The number of classes can only fall from row to row. The time to compile is that of the kernels of an `executable` of this
        graph, if given, and of generated kernels; otherwise it is estimated, and `time is` says so. Of generated kernels a last row,
        which is not a step, counts the classes of equal machine code. For constants the bytes saved are the only saving.
        """
        if self.constants is not None:
            return self.constants.ladder()
        rows, seconds = [], self._seconds(executable)
        sizes: dict[Node | str, tuple[int, int, float]] = {}
        for members in self._ladder.classes("alpha"):  # pieces that differ in names only have one size
            leader = self._pieces[members[0]]
            ops, text = len(leader.nodes), rewrite.text_bytes(leader)
            sizes.update({m: (ops, text, rewrite.compile_seconds(self._pieces[m], seconds)) for m in members})
        steps = [(str(relation), self._ladder.classes(relation), GIVES_UP[relation]) for relation in RELATIONS]
        if self.kernels is not None:
            steps.append(("machine code", self.kernels.codes, "nothing: their machine code is the same"))
        for relation, classes, cost in steps:
            rest = [sizes[member] for members in classes for member in members[1:]]
            ops, text, spent = (sum(each[0] for each in rest), sum(each[1] for each in rest), sum(each[2] for each in rest))
            largest = max(map(len, classes), default=0)
            known = "measured" if seconds else "estimated"
            rows.append([relation, len(self._pieces), len(classes), largest, ops, text, spent, known, cost])
        sums = ["ops saved", "text bytes saved", "compile s saved"]
        columns = ["relation", "pieces", "classes", "largest", *sums, "time is", "gives up"]
        return new_table(rows, columns=columns).set_index("relation")

    def table(self) -> pd.DataFrame:
        """One row per class: the number of members, their size and ops, and the representative; for constants their type, how they
        follow from the representative, and the bytes saved."""
        if self.constants is not None:
            return self.constants.table(self.classes)
        rows = []
        for cls in self.classes:
            piece = self._pieces[cls.representative]
            rows.append([cls.index, len(cls), len(piece.nodes), format_ops(piece.nodes), piece.label, cls.fingerprint])
        columns = ["class", "members", "nodes", "ops", "representative", "fingerprint"]
        made = new_table(rows, columns=columns).set_index("class")
        if self.kernels is not None:
            code = {name: place for place, names in enumerate(self.kernels.codes) for name in names}
            made["machine codes"] = [len({code[str(member)] for member in cls.members}) for cls in self.classes]
        return made

    def members(self, relation: Relation) -> list[Members]:
        """The members of each class by any relation, in program order of the first. Raises ArgumentError for an unknown one."""
        if self.constants is not None:
            return list(self.constants.classes(known_step(relation)))
        return self._ladder.classes(known_relation(relation))

    @cached_property
    def _sizes(self) -> Mapping[Relation, Mapping[Any, int]]:
        return {step: {member: len(members) for members in self.members(step) for member in members} for step in RELATIONS}

    @public
    def size_by(self, relation: Relation, member: Node | str) -> int:
        """The number of members of the class that a piece is in by another relation."""
        sizes = self._sizes[known_relation(relation)]
        return sizes[member if member in sizes else self._member(member)]

    def class_of(self, piece: Node | Value | str) -> EquivalenceClass:
        """The class of a piece; a group can also be named by a result, or by a node or value inside it."""
        return self._class_of[self._member(piece)]

    def piece(self, name: Node | Value | str) -> Piece:
        """A piece, for `match`; a group can also be named by a result."""
        self._refuse_constants("are no pieces of code")
        return self._pieces[self._member(name)]

    @public
    def difference(self, a: Node | Value | str, b: Node | Value | str) -> Verdict:
        """Whether two pieces are the same by this relation, and if not, where they differ.

        The witness holds the `Hole`s: all of them when both have the same structure, otherwise the first structural one. For
        constants that are the same, it says how one follows from the other.
        """
        if self.constants is not None:
            return self.constants.difference(self.constants.name_of(a), self.constants.name_of(b), known_step(self.relation))
        left, right = self.piece(a), self.piece(b)
        found_match = meeting(left, right)
        if found_match is not None and RANK[found_match.step] <= RANK[self.relation]:
            same = f"{left.label} and {right.label} are the same by relation {self.relation!r}"
            return yes(f"{same}: {plural(len(found_match.values), 'value')} correspond one to one").in_words("the same", "")
        both = f"{left.label} and {right.label}"
        late = "" if self.kernels is None else self.kernels.late(left.member, right.member)
        if found_match is not None and found_match.holes:
            places = "one place" if len(found_match.holes) == 1 else f"{len(found_match.holes)} places"
            told = f"{both} differ in {places}: {format_holes(found_match.holes)}{late or _joined_by(found_match.step)}"
            return _not_the_same(told, *found_match.holes)
        found = differences(left, right, known_relation(self.relation) if found_match is not None else RELATIONS[-1])
        if found.alike and not found.holes:  # a number that decides what is computed is no hole of any relation
            found = differences(left, right, "arguments")
            found.holes[:] = [hole for hole in found.holes if hole.kind == "constant"] or found.holes
        if found_match is not None:
            told = f"{both} differ in {GIVES_UP[found_match.step]}: {format_holes(found.holes)}{late or _joined_by(found_match.step)}"
            return _not_the_same(told, *found.holes)
        holes = found.holes[-1:] if not found.alike else found.holes
        where = excerpt(left, right, found.apart)
        return _not_the_same(f"{both} are built differently: {format_holes(holes)}{where}{late}", *holes)

    @public
    def why_not(self, a: Node | Value | str, b: Node | Value | str) -> Verdict:
        """Whether two pieces are the same by this relation; if not, by which they are, and what that relation gives up."""
        if self.constants is not None:
            return self.constants.why_not(self.constants.name_of(a), self.constants.name_of(b), known_step(self.relation))
        left, right = self.piece(a), self.piece(b)
        found_match = meeting(left, right)
        if found_match is None or RANK[found_match.step] <= RANK[self.relation]:
            return self.difference(a, b)
        only = f"are the same only from step {found_match.step!r} on, which gives up {GIVES_UP[found_match.step]}"
        where = f": {format_holes(found_match.holes)}" if found_match.holes else ""
        late = "" if self.kernels is None else self.kernels.late(left.member, right.member)
        hint = late or _joined_by(found_match.step)
        return _not_the_same(f"{left.label} and {right.label} {only}{where}{hint}", found_match.step, *found_match.holes)

    @public
    def holes(self, cls: EquivalenceClass | Node | Value | int | str) -> pd.DataFrame:
        """One row for each place in which members of a class may differ, one column for each member, and what the place depends
        on: a parameter of its own, another place's, or nothing because it is equal everywhere.

        A class is given as itself, by its number or by a piece in it. Raises UnknownNumber or UnknownName if it does not exist.
        For constants the rows are type, shape, and how it follows from which other.
        """
        if self.constants is not None:
            return self.constants.holes(self._class(cls))
        return self.class_holes(cls).table()

    def class_holes(self, cls: EquivalenceClass | Node | Value | int | str) -> ClassHoles:
        """The holes of a class as records, with the arguments of `holes`."""
        self._refuse_constants("have no holes that could be parameters")
        return rewrite.class_holes([self._pieces[member] for member in self._class(cls).members], known_relation(self.relation))

    @public
    def recommend(self, *, budget: float = 0.05, executable: Any = None, measure: bool = False) -> Recommendation:
        """The coarsest step for each class that costs no more than `budget` of its run time, with what it saves and gives up.

        `apply` accepts the result. An `executable` of this graph gives the compile times of its
        kernels. The slowdown is estimated; with `measure=True` the executable runs members of each class with their own kernels
        and with the common one, about a tenth of a second for each, and the measured slowdown decides. Raises ArgumentError where
        nothing can be run.
        """
        self._refuse_constants("are merged at one step")
        runs = executable if measure else None
        if measure and (not isinstance(self.source, Graph) or self.regions is not None or not hasattr(executable, "slowdown")):
            what = "slowdowns are measured on the fusion groups of a graph that was compiled"
            raise ArgumentError(what, hint="irs.dedup(f).recommend(executable=irs.compile(f), measure=True), for f = irs.fuse(graph)")
        price = partial(rewrite.price, self._seconds(executable), self.source if isinstance(self.source, Graph) else None, runs)
        has_callers = isinstance(self.source, Module) and self.kernels is None and not self._ladder.holds_groups
        why_not = rewrite.obstacles(self.source, self._ladder) if isinstance(self.source, Module) and has_callers else None
        return rewrite.recommend(self._ladder, budget=budget, price=price, why_not=why_not)

    @public
    def apply(self, step: Relation | ConstantStep | Recommendation | None = None, *, frozen: bool = False) -> Graph | Module:
        """The program with one body for each class of a step (by default this relation): holes are parameters, and callers pass
        their values. Of constants one is kept, where that is not observable; `frozen` promises that parameters and buffers never
        change again.

        The fusion groups of a class get one body, whichever functions of a module they are in; one function or executable
        replaces the others of its class. Pieces that cannot be merged stay as they are; `applied` says why.
        """
        return self.applied(step, frozen=frozen).program

    def applied(self, step: Relation | ConstantStep | Recommendation | None = None, *, frozen: bool = False) -> Applied:
        """Apply a step as `apply` does, and report what was done to each class, and why other pieces were not merged."""
        source, ladder = self.source, self._ladder
        if self.constants is not None:
            same = known_step(self.relation if step is None else step)
            if isinstance(source, Module):
                return Applied(*merge_constants_of_all(source, frozen=frozen, step=same), None)
            return _applied(merge_constants(source, frozen=frozen, step=same))
        if self.kernels is not None:
            what = "kernels are generated: merge the groups that they come from instead"
            raise ArgumentError(what, hint='irs.dedup(executable, unit="groups").apply(step), then irs.compile')
        if isinstance(step, rewrite.Recommendation):
            chosen = dict(step.chosen)
        else:
            relation = known_relation(self.relation if step is None else step)
            chosen = dict.fromkeys(ladder.classes(relation), relation)
        if isinstance(source, Module):
            merge = rewrite.merge_groups_of_all if ladder.holds_groups else rewrite.merge_modules
            return Applied(*merge(source, ladder, chosen), None)
        if self.regions is not None:
            return _outline_classes(source, self.regions, chosen)
        return _applied(rewrite.merge_groups(source, chosen={one: by for one, by in chosen.items() if not isinstance(one[0], str)}))

    @public
    def inside(self, cls: EquivalenceClass | Node | Value | int | str, *, unit: Literal["regions", "scopes"] = "regions") -> Dedup:
        """The repetitions within a class's representative, such as the heads of a layer. The pieces are those of the
        representative's body as a graph of its own. Raises UnknownNumber for a class that does not exist."""
        self._refuse_constants("repeat nothing inside")
        if unit not in ("regions", "scopes"):
            raise ArgumentError(f"there is no unit {unit!r} inside a class", hint="choose regions or scopes")
        piece = self._pieces[self._class(cls).representative]
        name = piece.member if isinstance(piece.member, str) else piece.graph.name
        graph = Graph(piece.block, name, functional=piece.graph.functional)
        return dedup(graph, relation=self.relation, unit=unit)

    def _refuse_constants(self, why: str) -> None:
        if self.constants is not None:
            raise ArgumentError(f"constants {why}", hint="d.difference, d.holes and d.apply answer for constants")

    def _class(self, cls: EquivalenceClass | Node | Value | int | str) -> EquivalenceClass:
        if isinstance(cls, EquivalenceClass):
            if not all(member in self._class_of for member in cls.members):
                what = "it is a class of another program"
                raise UnknownName(what, hint=f"the classes of this one are d.classes, {len(self.classes)} of them")
            return cls
        if not isinstance(cls, int):
            return self.class_of(cls)
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
        if self.constants is not None:
            return self.constants.name_of(piece)
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
        classes = plural(len(self.classes), "class", "classes")
        if self.constants is not None:
            saved = f"{sum(cls.bytes_saved for cls in self.classes)} bytes saved"
            return f"<Dedup of constants by {self.relation!r}: {plural(len(self.constants.all), 'constant')}, {classes}, {saved}>"
        return f"<Dedup by {self.relation!r}: {plural(len(self._pieces), 'piece')}, {classes}>"


def _applied(record: PassRecord) -> Applied:
    return Applied(record.after, tuple(map(str, record.remarks)), record)


def _outline_classes(graph: Graph, regions: RegionPieces, classes: Mapping[Members, Relation]) -> Applied:
    """The program with the regions of each class as a function, and remarks on regions that stay as they are."""
    repeats = regions.chosen(classes)
    module, remarks = rewrite.outline_nested(graph, repeats, regions.find)
    covered = {node for repeat in repeats for place in repeat.places for node in place}
    steps = ", ".join(repr(str(step)) for step in dict.fromkeys(classes.values())) or "what was chosen"
    apart = [
        f"missed {plural(repeat.size, 'node')} ×{len(repeat)} ({repeat.labels[0]}, …): "
        f"by {steps} no two of its {plural(len(repeat), 'place')} are the same"
        for repeat in regions.repeats if covered.isdisjoint(node for place in repeat.places for node in place)
    ]  # fmt: skip
    why = "memory and effects order the nodes so that not every place can run as one step, or places depend on each other"
    left = [
        f"missed {_some(members)}: {why}"
        for members in classes if len(members) > 1 and not all(covered.issuperset(regions.nodes(name)) for name in members)
    ]  # fmt: skip
    return Applied(module, (*remarks, *apart, *left), None)


def _region_of(graph: Graph, regions: RegionPieces, piece: Node | Value | str) -> str:
    """The name of the region that contains a node or a value, given as itself or by name."""
    node = piece if isinstance(piece, Node) else None
    if isinstance(piece, Value) or (isinstance(piece, str) and piece.removeprefix("%") in graph.names.values()):
        node = graph.producer.get(graph.value(piece))
    name = regions.name_of.get(node) if node is not None else None
    if name is None:
        raise UnknownName(f"{piece!r} is in no repeated region", hint=f"the pieces are {_some(regions.pieces)}")
    return name


def _joined_by(step: Relation) -> str:
    return f"; irs.dedup(…, relation={str(step)!r}) makes them one"


def _not_the_same(because: str, *witness: Any) -> Verdict:
    return Verdict(False, because, witness, "not the same")


def _some(pieces: Iterable[Node | str]) -> str:
    members = list(pieces)
    return ", ".join(map(repr, members[:5])) + (", …" if len(members) > 5 else "")


# --- sorting ----------------------------------------------------------------------------------------------------------

Unit = Literal["auto", "groups", "regions", "scopes", "kernels", "constants"]


@public
def dedup(source: Any, *, relation: Relation | ConstantStep | None = None, unit: Unit = "auto") -> Dedup:
    """Sort the pieces of a program into classes of equal ones.

    `unit` selects the pieces:

        auto        the fusion groups of a graph (or of a `Fusion`), or a graph without groups as a whole; the modules inside
                    a module, or its graphs if there are none; the kernels of a compiled program
        groups      the same, but for a compiled program those of its graph; for a module the groups of all its graphs, so
                    several models can be sorted together
        regions     the repeated regions of a graph, found without marks (`irscope.transforms.dedup.rewrite`)
        scopes      the parts of a graph that belong to one module of the model, at every depth
        kernels     the generated kernels; those that differ in early stages may have the same machine code
        constants   parameters, buffers and literals, by content (`irscope.transforms.dedup.constants`)

    `relation` is a step of the ladder: `text`, `alpha` (the default), `symbols`, `order`, `arguments`, `constants`, `extents`,
    `free`, `layout` or `dtype` (`irscope.transforms.dedup.piece`); for constants it is `tied` or `equal` (the default). Linear
    in the size of the program.

    >>> import irscope as irs
    >>> text = "graph(%a : Tensor):\\n  %b : Tensor = aten::relu(%a)\\n  return (%b)"
    >>> d = dedup(irs.Module({"f": irs.parse(text), "g": irs.parse(text.replace("%a", "%x"))}))
    >>> [cls.members for cls in d.classes]
    [('f', 'g')]
    """
    if unit not in get_args(Unit):
        raise ArgumentError(f"there is no unit {unit!r}", hint=f"choose one of {', '.join(get_args(Unit))}")
    source = getattr(source, "fusion", source)  # of what another compiler decided: the program with its groups
    generated = None if isinstance(source, Graph | Module) else getattr(source, "kernels", None)
    program = source if isinstance(source, Graph | Module) else getattr(source, "graph", None)
    if not isinstance(program, Graph | Module):
        hint = "irs.load(program, *example_arguments) makes a Graph of a model or a file"
        what = "a Graph, a Fusion, a Module or the result of irs.compile"
        raise ArgumentError(f"dedup works on {what}, not on {type(source).__name__}", hint=hint)
    if unit == "constants":
        return _sort_constants(program, known_step(relation or "equal"))
    relation = known_relation(relation or "alpha")
    if unit == "kernels" and generated is None:
        raise ArgumentError('unit="kernels" takes a compiled program', hint="irs.dedup(irs.compile(program)) sorts the generated kernels")
    if generated is not None and unit in ("auto", "kernels"):
        kernels = kernel_pieces(generated)
        note = f"{each(len(kernels.kernels), 'compiled kernel')} is a piece"
        return _sort_pieces(kernels.module, relation, kernels.pieces, note, kernels=kernels)
    if unit in ("regions", "scopes"):
        graph = program if isinstance(program, Graph) else program.graphs[entry(program)]  # the one called from outside
        with without_collector():
            found = (rewrite.region_pieces if unit == "regions" else rewrite.scope_pieces)(graph)
        return _sort_pieces(graph, relation, found.pieces, found.note, regions=found)
    with without_collector():  # a module may have a hundred thousand pieces
        pieces, note = pieces_of(program, groups=unit == "groups")
        return _sort_pieces(program, relation, pieces, note)


def _sort_pieces(
    program: Graph | Module, relation: Relation, pieces: Mapping[Node | str, Piece], note: str,
    *, regions: RegionPieces | None = None, kernels: KernelPieces | None = None,
) -> Dedup:  # fmt: skip
    ladder = Ladder(pieces)
    found = sorted(ladder.classes(relation), key=lambda members: -len(members))
    classes = [EquivalenceClass(i, one, one[0], partial(fingerprint, pieces[one[0]], relation)) for i, one in enumerate(found)]
    return Dedup(program, relation, tuple(classes), note, ladder, regions, kernels)


def _sort_constants(program: Graph | Module, step: ConstantStep) -> Dedup:
    found = find_constants(program)
    classes = [(members, found.saved_by(members, step)) for members in found.classes(step)]
    classes.sort(key=lambda entry: (-entry[1], -len(entry[0])))
    made = [
        EquivalenceClass(i, members, found.kept(members[0], step), partial(found.fingerprint, members[0]), saved)
        for i, (members, saved) in enumerate(classes)
    ]
    note = f"{each(len(found.all), 'constant')} of the program is a piece"
    return Dedup(program, step, tuple(made), note, Ladder({}), constants=found)
