"""The pieces of a program, and their equivalence classes for every relation of the ladder.

*Pieces* are fusion groups, functions, the executables inside a program, or generated kernels. *Early* a kernel is its spec, which is
compared as a graph like every other piece. *Late* it is machine code. Two specs that differ (in an operand's order, in how long a row
may be, in a type of the same size) may have the same machine code; then one kernel can serve both, as it does whatever its machine
code says, and the difference disappears.

*Classes* of a relation are built from those of the previous relation. Hash first, then prove: a piece joins a class only by a `Match`
with its first member. From one step to the next only first members are compared, so a coarser step costs less, and a class never
splits again: any two of its members are connected by a chain of matches. For `alpha`, equal keys (`form.Keys`) are the proof, which
saves most pieces the form and the match; for `symbols`, pieces with a key have no names that could be exchanged.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain
from typing import Any, Final

from irscope._base.frozen import EMPTY, FrozenDict
from irscope._base.nested import grouped
from irscope._base.running import counted, without_collector
from irscope._base.words import each
from irscope.errors import UnknownName
from irscope.ir import GROUPS, Graph, Module, Node, Opaque
from irscope.transforms.dedup.form import Keys, Token, fingerprint
from irscope.transforms.dedup.matching import match
from irscope.transforms.dedup.piece import NO_BLOCK, RANK, RELATIONS, Body, Piece, Relation

Members = tuple[Node | str, ...]


def pieces_of(program: Graph | Module, *, groups: bool = False) -> tuple[dict[Node | str, Piece], str]:
    """Returns the default pieces of a program, and one sentence that says what they are; `groups` asks for the fusion groups of all
    graphs of a module, which are named by graph and result, such as `encoder/%h`."""
    if isinstance(program, Module):
        found: dict[Node | str, Piece] = {}
        for graph_name, graph in program.graphs.items() if groups else ():
            for place, node in enumerate(_groups(graph)):
                name = f"{graph_name}/%{graph.names[node.outputs[0]]}" if node.outputs else f"{graph_name}/group {place}"
                found[name] = Piece(name, node.blocks[0], graph, _attrs(node), kind="group")
        if found:
            return found, f"{each(len(found), 'fusion group')} of the module's graphs is a piece"
        if program.modules:
            inside: dict[Node | str, Piece] = {name: _executable(name, inner) for name, inner in program.modules.items()}
            return inside, f"{each(len(inside), 'module')} inside the module is a piece"
        named = _names_of(program)
        graphs: dict[Node | str, Piece] = {
            name: Piece(name, graph.body, graph, _promises(graph), (), named) for name, graph in program.graphs.items()
        }
        return graphs, f"{each(len(graphs), 'graph')} of the module is a piece"
    own: dict[Node | str, Piece] = {node: Piece(node, node.blocks[0], program, _attrs(node)) for node in _groups(program)}
    if own:
        return own, f"{each(len(own), 'fusion group')} of the graph is a piece"
    return {program.name: Piece(program.name, program.body, program, EMPTY)}, "the graph has no fusion groups, so it is one piece"


def _groups(graph: Graph) -> Iterator[Node]:
    return (node for node in graph.nodes() if node.op in GROUPS and node.blocks)


def _attrs(group: Node) -> Mapping[str, Any]:
    """A group's attributes without the name that another compiler gave to its kernel, which is no part of what it computes."""
    return FrozenDict({name: held for name, held in group.attrs.items() if name != "kernel"}) if "kernel" in group.attrs else group.attrs


def _promises(graph: Graph) -> Mapping[str, Any]:
    """The promises of a graph's caller, which are part of its identity."""
    return {"distinct_inputs": graph.distinct_inputs or bool(graph.functional)}


def _executable(name: str, module: Module) -> Piece:
    """A module inside another as a piece; its roots are its exports or, without any, its public names."""
    exports = [symbol.name for symbol in module.symbols if "function_ref" in symbol.attrs]
    private = {symbol.name for symbol in module.symbols if symbol.visibility != "public"}
    declared = [*(symbol.name for symbol in module.symbols), *module.graphs, *module.modules, *module.constants]
    roots = tuple(dict.fromkeys(exports or [name for name in declared if name not in private]))
    attrs = module.attrs
    if any("is_mutable" in symbol.attrs for symbol in module.symbols):
        attrs = FrozenDict({**attrs, "state": Opaque(f"the variables of {name}")})  # equal to itself only
    return Piece(name, NO_BLOCK, _NOTHING, attrs, roots, _names_of(module))


_NOTHING: Final = Graph(NO_BLOCK, "nothing")


def _names_of(module: Module) -> dict[str, tuple[Body, ...]]:
    """The meaning of each name of a module: its declarations with their bodies, and its function."""
    found: dict[str, list[Body]] = {}
    for symbol in module.symbols:
        declared, body = _declaration_attrs(symbol.kind, symbol.visibility), symbol.body
        attrs = FrozenDict({**symbol.attrs, **declared}) if symbol.attrs else declared
        found.setdefault(symbol.name, []).append(Body(NO_BLOCK, _NOTHING, attrs) if body is None else Body(body.body, body, attrs))
    for name, graph in module.graphs.items():
        found.setdefault(name, []).append(Body(graph.body, graph, _promises(graph)))
    for name, inner in module.modules.items():  # too rare to be compared by content: equal to itself only
        found.setdefault(name, []).append(Body(NO_BLOCK, _NOTHING, FrozenDict(module=inner)))
    for name, payload in module.constants.items():
        found.setdefault(name, []).append(Body(NO_BLOCK, _NOTHING, FrozenDict(value=payload)))
    return {name: tuple(bodies) for name, bodies in found.items()}


@lru_cache(maxsize=256)
def _declaration_attrs(kind: str, visibility: str) -> FrozenDict[str, Any]:
    """The attributes of most declarations, cached, as a module has many equal ones."""
    return FrozenDict({"declared by": kind, "visibility": visibility})


# --- generated kernels -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class KernelPieces:
    """The kernels of an executable, by name; further kernels of the same name have a number behind it.

    Each has its spec as a `graph`, its `attributes` as a whole, the `groups` that it came from, its `compile_seconds`, and its
    `machine_code` without its name.
    """

    kernels: Mapping[str, Any]

    @cached_property
    def pieces(self) -> dict[Node | str, Piece]:
        return {
            name: Piece(name, (graph := kernel.graph).body, graph, kernel.attributes, kind="kernel")
            for name, kernel in self.kernels.items()
        }

    @property
    def module(self) -> Module:
        """All specs as graphs."""
        return Module({str(name): piece.graph for name, piece in self.pieces.items()}, name="kernels")

    @property
    def seconds(self) -> dict[Node | str, float]:
        """The compile time of each kernel."""
        return {name: kernel.compile_seconds for name, kernel in self.kernels.items()}

    @cached_property
    def codes(self) -> list[Members]:
        """The kernels grouped by machine code, which is generated again for the comparison; the largest group first."""
        found = grouped((self.kernels[name].machine_code, name) for name in self.kernels)
        return sorted(map(tuple, found.values()), key=lambda names: -len(names))

    def late(self, a: Node | str, b: Node | str) -> str:
        """A clause that says that two kernels have the same machine code; empty if it differs too."""
        same = a != b and self.kernels[str(a)].machine_code == self.kernels[str(b)].machine_code
        return "; yet their machine code is the same, so one serves for both" if same else ""

    def named(self, piece: Any) -> str:
        """The name of a kernel that is given as itself, by its number, or by a group that runs it. Raises UnknownName."""
        if isinstance(piece, int) and 0 <= piece < len(self.kernels):
            return list(self.kernels)[piece]
        for name, kernel in self.kernels.items():
            if piece is kernel or piece in kernel.groups:
                return name
        raise UnknownName(f"there is no kernel {piece!r}", hint=f"the kernels are {', '.join(list(self.kernels)[:5])}")


def kernel_pieces(kernels: Sequence[Any]) -> KernelPieces:
    """Returns the kernels under unique names."""
    counts: Counter[str] = Counter()
    named = {}
    for kernel in kernels:
        named[f"{kernel.name}#{counts[kernel.name]}" if kernel.name in counts else kernel.name] = kernel
        counts[kernel.name] += 1
    return KernelPieces(named)


# --- classes ----------------------------------------------------------------------------------------------------------


class Ladder:
    """The classes of some pieces by each relation, computed on first use."""

    def __init__(self, pieces: Mapping[Node | str, Piece]) -> None:
        self.pieces = pieces
        self._place = {member: place for place, member in enumerate(pieces)}
        self._known: dict[Relation, list[Members]] = {}
        self._class_of: dict[Relation, dict[Node | str, Members]] = {}

    def classes(self, relation: Relation) -> list[Members]:
        """The members of each class in program order; the classes are in program order of their first members."""
        if relation not in self._known:
            with without_collector():
                self._known[relation] = self._join(relation)
        return self._known[relation]

    @property
    def holds_groups(self) -> bool:
        return any(piece.group is not None for piece in self.pieces.values())

    def class_of(self, member: Node | str, relation: Relation) -> Members:
        if relation not in self._class_of:
            self._class_of[relation] = {one: members for members in self.classes(relation) for one in members}
        return self._class_of[relation][member]

    def within(self, members: Members, relation: Relation) -> list[Members]:
        """The classes of a finer relation into which a class splits."""
        return list(dict.fromkeys(self.class_of(member, relation) for member in members))

    @cached_property
    def _keys(self) -> dict[Node | str, tuple[Token, ...] | None]:
        keys = Keys()
        return {member: keys.key(piece) for member, piece in counted(self.pieces.items(), "comparing pieces")}

    def _join(self, relation: Relation) -> list[Members]:
        """Join classes pairwise within each bucket of equal fingerprints, which nearly always becomes one class."""
        is_finest = RANK[relation] <= RANK["alpha"]
        before: list[Members] = [(member,) for member in self.pieces] if is_finest else self.classes(RELATIONS[RANK[relation] - 1])
        made, rest = self._split_by_keys(before, relation)
        buckets: dict[bytes, list[list[Members]]] = {}
        for members in counted(rest, f"classes by {relation}"):
            piece = self.pieces[members[0]]
            found = buckets.setdefault(fingerprint(piece, relation), [])
            for joined in found:
                if match(self.pieces[joined[0][0]], piece, relation) is not None:
                    joined.append(members)
                    break
            else:
                found.append([members])
        place = self._place
        for joined in (joined for found in buckets.values() for joined in found):
            made.append(joined[0] if len(joined) == 1 else tuple(sorted(chain.from_iterable(joined), key=place.__getitem__)))
        return sorted(made, key=lambda members: place[members[0]])

    def _split_by_keys(self, before: list[Members], relation: Relation) -> tuple[list[Members], list[Members]]:
        """The classes that keys decide, and the previous ones that they do not decide."""
        if relation not in ("alpha", "symbols"):
            return [], before
        rest = [members for members in before if self._keys[members[0]] is None]
        if relation == "symbols":
            return [members for members in before if self._keys[members[0]] is not None], rest
        found = grouped((key, member) for member, key in self._keys.items() if key is not None)
        return list(map(tuple, found.values())), rest
