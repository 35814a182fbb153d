"""A repeated region: the places where it stands, what each hands in and takes out, and where they differ."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from irscope._base.concurrency.cached import cached_property
from irscope.analysis.per_graph import alias_db_of
from irscope.errors import loading
from irscope.ir import ANY, Block, Dim, Graph, Node, TensorType, Type, Value, constant_value, erase_refinements
from irscope.transforms.dedup.holes import told
from irscope.transforms.dedup.matching import match
from irscope.transforms.dedup.regions.block_index import inner_piece
from irscope.transforms.dedup.relations import same_payload

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["RegionHole", "Repeat", "Slot", "common_type"]


@dataclass(frozen=True, slots=True)
class Slot:
    """An operand in a region: which node, and which operand of it."""

    column: int
    number: int


@dataclass(frozen=True, slots=True)
class RegionHole:
    """Something that the places of a region do not share: a constant, an extent, or which parameter is used."""

    kind: str
    """`constant`, `type` or `parameter`."""
    place: str
    """Where, in words: the op and its operand or result."""
    values: tuple[str, ...]
    """What each place has there, in order."""


@dataclass(frozen=True, eq=False)
class Repeat:
    """Equal regions of one block. Their nodes correspond column by column; each pair was matched (`matching`)."""

    graph: Graph
    block: Block
    places: tuple[tuple[Node, ...], ...]
    """The nodes of each place, in one order that every place allows; places in program order."""
    operands: tuple[tuple[tuple[Value, ...], ...], ...]
    """What each node of each place reads, its blocks included."""

    def __len__(self) -> int:
        return len(self.places)

    def at(self, places: Sequence[int]) -> Repeat:
        """The same region in some of its places."""
        if len(places) == len(self):
            return self
        return Repeat(
            self.graph, self.block, tuple([self.places[place] for place in places]), tuple([self.operands[place] for place in places])
        )

    @property
    def size(self) -> int:
        """Nodes in one place."""
        return len(self.places[0])

    @property
    def nodes_saved(self) -> int:
        """How many nodes the program has less when the region is written once and called."""
        return (len(self) - 1) * self.size - len(self)

    @cached_property
    def inputs(self) -> tuple[tuple[Value, ...], ...]:
        """What the region is handed in, one entry a parameter: the value in each place. Two operands share a parameter if
        they are the same value in every place. Constants that are the same in every place are no parameters."""
        return tuple(self._parameters)

    @cached_property
    def parameter_of(self) -> dict[Slot, int]:
        """Which parameter each operand from outside is."""
        return {slot: number for number, slots in enumerate(self._parameters.values()) for slot in slots}

    def is_constant_hole(self, number: int) -> bool:
        """Whether a parameter is a constant in every place."""
        makers = [self.graph.producer.get(value) for value in self.inputs[number]]
        return all(maker is not None and maker.op == "prim::Constant" for maker in makers)

    def input_type(self, number: int) -> Type:
        """What is true of a parameter in every place."""
        return common_type([value.type for value in self.inputs[number]])

    def result_type(self, column: int, number: int) -> Type:
        """What is true of a result in every place."""
        return common_type([nodes[column].outputs[number].type for nodes in self.places])

    @cached_property
    def _parameters(self) -> dict[tuple[Value, ...], list[Slot]]:
        found: dict[tuple[Value, ...], list[Slot]] = {}
        for slot, values in self._from_outside():
            if not self._is_shared_constant(values):
                found.setdefault(values, []).append(slot)
        return found

    def _from_outside(self) -> list[tuple[Slot, tuple[Value, ...]]]:
        own = {value for node in self.places[0] for value in node.outputs}
        return [
            (Slot(column, number), tuple([row[column][number] for row in self.operands]))
            for column, values in enumerate(self.operands[0])
            for number, value in enumerate(values)
            if value not in own
        ]

    def _is_shared_constant(self, values: Sequence[Value]) -> bool:
        """Whether a value is the same plain constant everywhere, so that it belongs to the region itself."""
        makers = [self.graph.producer.get(value) for value in values]
        first = makers[0]
        if first is None or first.op != "prim::Constant" or not _is_plain(constant_value(first)):
            return False
        if isinstance(constant_value(first), tuple) and any(map(alias_db_of(self.graph).is_written, values)):
            return False  # a list that is written is one memory for all calls
        return all(
            maker is not None and maker.op == "prim::Constant" and maker.output.type == first.output.type
            and same_payload(constant_value(maker), constant_value(first))
            for maker in makers
        )  # fmt: skip

    @cached_property
    def outputs(self) -> tuple[tuple[int, int], ...]:
        """What somebody outside reads in some place: columns and numbers of results."""
        users, returned = self.graph.users, set(self.block.returns)
        found = []
        homes = [dict.fromkeys(nodes) for nodes in self.places]
        for column, node in enumerate(self.places[0]):
            for number in range(len(node.outputs)):
                values = [nodes[column].outputs[number] for nodes in self.places]
                read = (
                    value in returned or any(not self._holds(use.user, home) for use in users.get(value, ()))
                    for value, home in zip(values, homes, strict=True)
                )  # fmt: skip
                if any(read):
                    found.append((column, number))
        return tuple(found)

    def _holds(self, user: Node | Block, home: dict[Node, None]) -> bool:
        """Whether a reader is in the region, or in a block of one of its nodes."""
        graph = self.graph
        while True:
            node = graph.owner.get(user) if isinstance(user, Block) else user
            if node is None:
                return False
            if node in home:
                return True
            user = graph.block_of[node]

    def scope(self, place: int) -> str:
        """The module path that all nodes of a place share; empty if there is none."""
        return _common([node.scope for node in self.places[place]])

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """What to call the places: by module path where each has another, else by number."""
        scopes = tuple([self.scope(place) for place in range(len(self))])
        return scopes if len(set(scopes)) == len(scopes) else tuple([f"place {place}" for place in range(len(self))])

    @cached_property
    def holes(self) -> tuple[RegionHole, ...]:
        """Everything that is not the same in all places."""
        names = self.graph.names
        found = []
        for column, node in enumerate(self.places[0]):
            for number in range(len(node.outputs)):
                types = [nodes[column].outputs[number].type for nodes in self.places]
                if any(type != types[0] for type in types):
                    what = f"result of {node.op}#{column}"
                    found.append(RegionHole("type", what, tuple(map(str, types))))
        for values, slots in self._parameters.items():
            if len(set(values)) > 1:
                slot = slots[0]
                texts = [self._told(value, names) for value in values]
                kind = "constant" if all(is_constant for _, is_constant in texts) else "parameter"
                where = f"operand {slot.number} of {self.places[0][slot.column].op}#{slot.column}"
                found.append(RegionHole(kind, where, tuple(text for text, _ in texts)))
        for column, node in enumerate(self.places[0]):
            for number in range(len(node.blocks)):
                found += self._inner_holes(column, number)
        return tuple(found)

    def _inner_holes(self, column: int, number: int) -> Iterator[RegionHole]:
        """What differs inside of the blocks of nodes, place by place in the first one's slots."""
        pieces = [inner_piece(self.graph, nodes[column], nodes[column].blocks[number]) for nodes in self.places]
        matches = [match(pieces[0], piece, "extents") for piece in pieces]
        rows = [{(pair.kind, pair.site): pair.right for pair in found.slots} if found else {} for found in matches]
        first = matches[0]
        for kind, site in rows[0]:
            values = [row.get((kind, site)) for row in rows]
            if first is not None and not all(same_payload(value, values[0]) for value in values):
                where = f"{first.place(site, kind)}, in {self.places[0][column].op}#{column}"
                yield RegionHole("constant" if kind in ("constant", "size") else "type", where, tuple(map(told, values)))

    def _told(self, value: Value, names: Any) -> tuple[str, bool]:
        maker = self.graph.producer.get(value)
        if maker is not None and maker.op == "prim::Constant":
            return repr(constant_value(maker)), True
        return f"%{names[value]}", False

    def table(self) -> pd.DataFrame:
        """What differs: one row a hole, one column a place."""
        with loading("pandas"):
            import pandas as pd

        rows = [(hole.kind, hole.place, *hole.values) for hole in self.holes]
        return pd.DataFrame(rows, columns=["kind", "where", *self.labels])

    def __repr__(self) -> str:
        return f"<Repeat: {self.size} nodes ×{len(self)}>"


def _is_plain(payload: Any) -> bool:
    if isinstance(payload, tuple | list):
        return all(map(_is_plain, payload))
    return payload is None or isinstance(payload, int | float | complex | str)


def _common(scopes: Sequence[str]) -> str:
    """The longest module path that all share.

    >>> _common(["layer.0.query", "layer.0.key"]), _common(["a", "b"])
    ('layer.0', '')
    """
    paths = [scope.split(".") for scope in dict.fromkeys(scopes)]
    shared = []
    for parts in zip(*paths, strict=False):
        if any(part != parts[0] for part in parts):
            break
        shared.append(parts[0])
    return ".".join(shared)


def common_type(types: Sequence[Type]) -> Type:
    """What is true of several types: what differs between tensors is unknown.

    >>> str(common_type([TensorType("float32", (2, 3), (3, 1)), TensorType("float32", (2, 4), (4, 1))]))
    'Float(2, *)'
    """
    first = types[0]
    if all(type == first for type in types):
        return first
    tensors = [type for type in types if isinstance(type, TensorType)]
    if len(tensors) < len(types):
        return common_type(list(map(erase_refinements, types))) if first != erase_refinements(first) else ANY
    facts = {name: _agreed([getattr(type, name) for type in tensors]) for name in _FIELDS}
    return TensorType(
        shape=_agreed_shape([type.shape for type in tensors]),
        undefined=any(type.undefined for type in tensors),
        **facts,
    )


_FIELDS: Final = ("dtype", "strides", "device", "requires_grad")


def _agreed(facts: Sequence[Any]) -> Any:
    return facts[0] if all(fact == facts[0] for fact in facts) else None


def _agreed_shape(shapes: Sequence[tuple[Dim, ...] | None]) -> tuple[Dim, ...] | None:
    """The extents that agree, of shapes of one rank."""
    known = [shape for shape in shapes if shape is not None]
    if len(known) < len(shapes) or len(set(map(len, known))) > 1:
        return None
    return tuple([dims[0] if all(dim == dims[0] for dim in dims) else None for dims in zip(*known, strict=True)])
