"""Which pieces of a program are the same, by four relations and what keeps the others apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from irscope._base.concurrency.cached import cached_property
from irscope._base.verdict import Verdict, no, yes
from irscope._base.words import plural
from irscope.errors import ArgumentError, UnknownName
from irscope.ir import GROUPS, Graph, Module, Node, Value
from irscope.ir.module import entry
from irscope.transforms.dedup.canonical import Piece, fingerprint
from irscope.transforms.dedup.encoding import RELATIONS, Relation
from irscope.transforms.dedup.regions import RegionPieces, region_pieces
from irscope.transforms.dedup.relations import Hole, bijection, differences

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["RELATIONS", "Dedup", "EquivalenceClass", "Hole", "dedup"]


@dataclass(frozen=True)
class EquivalenceClass:
    """Pieces that are the same by one relation; every one was matched with the representative value by value."""

    index: int
    """Place among the classes, the largest class first."""
    members: tuple[Node | str, ...]
    """Group nodes, or names of graphs, in program order."""
    representative: Node | str
    """The first member."""
    fingerprint: str
    """Of the canonical form, in hexadecimal; stable between runs."""

    def __len__(self) -> int:
        return len(self.members)


@dataclass(frozen=True, eq=False)
class Dedup:
    """The pieces of a program and their classes."""

    source: Graph | Module
    relation: Relation
    classes: tuple[EquivalenceClass, ...]
    """By number of members, the largest first; then in program order."""
    note: str
    """What the pieces are, one sentence."""
    _pieces: dict[Node | str, Piece] = field(repr=False)
    regions: RegionPieces | None = field(default=None, repr=False)
    """The regions whose places the pieces are, if they are."""

    def ladder(self) -> pd.DataFrame:
        """How many classes there are by each relation; the numbers can only fall from row to row."""
        import pandas as pd

        rows = []
        for relation in RELATIONS:
            sizes = [len(members) for members, _ in _classes(self._pieces, relation)]
            rows.append({"relation": relation, "classes": len(sizes), "largest": max(sizes, default=0)})
        table = pd.DataFrame(rows, columns=["relation", "classes", "largest"]).set_index("relation")
        table.insert(0, "pieces", len(self._pieces))
        return table

    def table(self) -> pd.DataFrame:
        """One row per class: how many members, how large, what they compute, where the first one is."""
        import pandas as pd

        rows = []
        for cls in self.classes:
            piece = self._pieces[cls.representative]
            ops = [node.op for node in piece.block.nodes if node.op != "prim::Constant"]
            rows.append({
                "class": cls.index, "members": len(cls), "nodes": len(ops), "ops": _told_ops(ops),
                "representative": piece.label, "fingerprint": cls.fingerprint,
            })  # fmt: skip
        columns = ["class", "members", "nodes", "ops", "representative", "fingerprint"]
        return pd.DataFrame(rows, columns=columns).set_index("class")

    def class_of(self, piece: Node | Value | str) -> EquivalenceClass:
        """The class of a piece; a group also goes by the name of a result, a node or value inside it by its group."""
        return self._class_of[self._member(piece)]

    def difference(self, a: Node | Value | str, b: Node | Value | str) -> Verdict:
        """Whether two pieces are the same by this relation, and if not, in which places they differ.

        The witness holds the `Hole`s: all of them when both are built alike, otherwise the first structural one.
        """
        left, right = self._pieces[self._member(a)], self._pieces[self._member(b)]
        matched = bijection(left, right, self.relation)
        if matched is not None:
            told = f"{left.label} and {right.label} are the same by relation {self.relation!r}"
            return yes(f"{told}: {len(matched)} values correspond one to one")
        found = differences(left, right, self.relation)
        first = "; ".join(map(str, found.holes[:3])) + (
            f"; and {len(found.holes) - 3} more" if len(found.holes) > 3 else ""
        )
        if found.alike:
            places = "one place" if len(found.holes) == 1 else f"{len(found.holes)} places"
            return no(f"{left.label} and {right.label} differ in {places}: {first}", *found.holes)
        return no(f"{left.label} and {right.label} are built differently: {first}", *found.holes)

    @cached_property
    def _class_of(self) -> dict[Node | str, EquivalenceClass]:
        return {member: cls for cls in self.classes for member in cls.members}

    def _member(self, piece: Node | Value | str) -> Node | str:
        if isinstance(piece, Node | str) and piece in self._pieces:
            return piece
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

    def __repr__(self) -> str:
        pieces = plural(len(self._pieces), "piece")
        return f"<Dedup by {self.relation!r}: {pieces}, {plural(len(self.classes), 'class', 'classes')}>"


Unit = Literal["auto", "regions"]


def dedup(source: Graph | Module | Any, *, relation: Relation = "alpha", unit: Unit = "auto") -> Dedup:
    """Sort the pieces of a program into classes of equal ones.

    The pieces of a graph (or of what `fuse` gives) are its fusion groups; a graph without groups is one piece as a
    whole, and so is each graph of a module. With `unit="regions"` the pieces are the repeated regions of a graph, found
    without being marked (`irscope.transforms.dedup.regions`). `relation` is one of `text`, `alpha`, `order`, `extents`, explained in
    `irscope.transforms.dedup.canonical`. Linear in the size of the program.

    >>> import irscope as irs
    >>> text = "graph(%a : Tensor):\\n  %b : Tensor = aten::relu(%a)\\n  return (%b)"
    >>> d = dedup(irs.Module({"f": irs.parse(text), "g": irs.parse(text.replace("%a", "%x"))}))
    >>> [cls.members for cls in d.classes]
    [('f', 'g')]
    """
    if relation not in RELATIONS:
        raise ArgumentError(f"there is no relation {relation!r}", hint=f"choose one of {', '.join(RELATIONS)}")
    program = source if isinstance(source, Graph | Module) else getattr(source, "graph", None)
    if not isinstance(program, Graph | Module):
        hint = "irs.load(program, *example_arguments) makes a Graph of a model or a file"
        raise ArgumentError(f"dedup works on a Graph, a Fusion or a Module, not on {type(source).__name__}", hint=hint)
    if unit not in ("auto", "regions"):
        raise ArgumentError(f"there is no unit {unit!r}", hint="choose auto (groups, or whole graphs) or regions")
    if unit == "regions":
        return _of_regions(program, relation)
    pieces, note = _pieces_of(program)
    return _sorted_into_classes(program, relation, pieces, note)


def _of_regions(program: Graph | Module, relation: Relation) -> Dedup:
    """Regions as pieces; those of a module are found in the one graph that can be meant from outside."""
    graph = program if isinstance(program, Graph) else program.graphs[entry(program)]
    found = region_pieces(graph)
    return _sorted_into_classes(graph, relation, dict(found.pieces), found.note, found)


def _sorted_into_classes(
    program: Graph | Module, relation: Relation, pieces: dict[Node | str, Piece], note: str, regions: RegionPieces | None = None
) -> Dedup:
    found = sorted(_classes(pieces, relation), key=lambda entry: -len(entry[0]))
    classes = [EquivalenceClass(i, members, members[0], mark.hex()) for i, (members, mark) in enumerate(found)]
    return Dedup(program, relation, tuple(classes), note, pieces, regions)


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


def _pieces_of(program: Graph | Module) -> tuple[dict[Node | str, Piece], str]:
    if isinstance(program, Module):
        graphs: dict[Node | str, Piece] = {name: _whole(name, graph) for name, graph in program.graphs.items()}
        return graphs, f"each of the {len(graphs)} graphs of the module is a piece"
    nodes = [node for node in program.nodes() if node.op in GROUPS]
    groups: dict[Node | str, Piece] = {node: Piece(node, node.blocks[0], program, node.attrs) for node in nodes}
    if groups:
        return groups, f"each of the {len(groups)} fusion groups of the graph is a piece"
    return {
        program.name: Piece(program.name, program.body, program, {})
    }, "the graph has no fusion groups, so it is one piece"


def _whole(name: str, graph: Graph) -> Piece:
    """A graph as a piece; what its caller promises is part of what it is."""
    return Piece(name, graph.body, graph, {"distinct_inputs": graph.distinct_inputs or bool(graph.functional)})


def _classes(pieces: dict[Node | str, Piece], relation: Relation) -> Iterator[tuple[tuple[Node | str, ...], bytes]]:
    """Hash first, then prove: a piece joins a class only by a bijection with its first member."""
    buckets: dict[bytes, list[list[Node | str]]] = {}
    for member, piece in pieces.items():
        found = buckets.setdefault(fingerprint(piece, relation), [])
        for members in found:
            if bijection(pieces[members[0]], piece, relation) is not None:
                members.append(member)
                break
        else:
            found.append([member])
    for mark, found in buckets.items():
        for members in found:
            yield tuple(members), mark


def _told_ops(ops: list[str]) -> str:
    """The ops with their counts, the most frequent first."""
    return ", ".join(
        op.partition("::")[2] + (f" ×{count}" if count > 1 else "") for op, count in Counter(ops).most_common(8)
    )


def _some(pieces: Iterable[Node | str]) -> str:
    members = list(pieces)
    return ", ".join(map(repr, members[:5])) + (", …" if len(members) > 5 else "")
