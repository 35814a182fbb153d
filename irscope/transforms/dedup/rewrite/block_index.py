"""Indexes the nodes of one block by number: their looks, their operands and users, and the nodes that must precede them.

The *look* of a node is what every place of a repeated pattern has in common: op, attributes, number of operands, which of them
are None, element types, and extents as far as broadcasting distinguishes them (one, more than one, unknown). Constants are not
nodes here: they are part of the operands of their users and may differ between the places, as extents may.

*Operands* are those of the node and the values that its blocks read from outside, in the order of first use: the body of an `if`
that uses a value ties the node to that value just as an operand does.

Looks are compared as tuples, not as hashes; the look of a node with blocks includes the canonical form of its blocks, also
without constants and extents. Candidates found this way are finally proved the same (`same_region`): node by node, operand by
operand, payload by payload.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from typing import Final

from irscope.analysis.dependence import dependences
from irscope.ir import NONE, Block, Graph, Node, TensorType, Type, Value, make_block
from irscope.ir.structural import free_values, inner_blocks
from irscope.transforms.dedup.encoding import spell_attrs
from irscope.transforms.dedup.form import canonical_form
from irscope.transforms.dedup.matching import match
from irscope.transforms.dedup.pairing import same_bits
from irscope.transforms.dedup.piece import Piece, Relation

OUTSIDE: Final = -1
"""The producer of an operand that no node of the block produces: a parameter, a constant, or a value of an enclosing block."""


@dataclass(eq=False)
class BlockIndex:
    """One block; nodes are identified by their place among the nodes that are not constants."""

    graph: Graph
    block: Block
    nodes: tuple[Node, ...] = field(init=False)
    operands: list[tuple[Value, ...]] = field(init=False)
    """The values that each node reads."""
    producers: list[tuple[tuple[int, int], ...]] = field(init=False)
    """For each operand, its producer and the number of the result; (`OUTSIDE`, -1) if no node produces it."""
    users: list[list[tuple[int, int, int]]] = field(init=False)
    """The uses of each node's results, in textual order: number of the result, place among the operands, user."""
    looks: list[int] = field(init=False)
    """Equal numbers for nodes that look the same."""

    def __post_init__(self) -> None:
        self.nodes = tuple([node for node in self.block.nodes if node.op != "prim::Constant"])
        self.operands = [(*node.inputs, *free_values(node)) if inner_blocks(node) else node.inputs for node in self.nodes]
        made = {value: (place, number) for place, node in enumerate(self.nodes) for number, value in enumerate(node.outputs)}
        outside = (OUTSIDE, -1)
        self.producers = [tuple([made.get(value, outside) for value in values]) for values in self.operands]
        self.users = [[] for _ in self.nodes]
        for reader, row in enumerate(self.producers):
            for slot, (place, number) in enumerate(row):
                if place != OUTSIDE:
                    self.users[place].append((number, slot, reader))
        self.piece = cache(partial(inner_piece, self.graph))
        """A block of a node as a piece."""
        self.looks = _number_looks(self)

    @cached_property
    def before(self) -> list[tuple[int, ...]]:
        """For each node, the earlier ones that must precede it: by data, memory, effects or random numbers."""
        place = {node: index for index, node in enumerate(self.nodes)}
        of_block = [place.get(node, OUTSIDE) for node in self.block.nodes]
        rows = dependences(self.graph, self.block).before
        return [
            tuple([of_block[earlier] for earlier in row if of_block[earlier] != OUTSIDE])
            for index, row in enumerate(rows)
            if of_block[index] != OUTSIDE
        ]


def inner_piece(graph: Graph, node: Node, block: Block) -> Piece:
    """Returns a block of a node as a piece, with the values that it reads from outside as further parameters."""
    params = (*block.params, *_read_by(block))
    return Piece(node, make_block(block.id, params, block.nodes, block.returns), graph, {})


def _number_looks(index: BlockIndex) -> list[int]:
    """Equal numbers for nodes that look the same."""
    pattern = cache(_pattern)
    forms: dict[bytes, bytes] = {}  # of blocks by `extents`, keyed by their forms by `alpha`, which are cheaper
    known: dict[tuple[object, ...], int] = {}

    def form(piece: Piece) -> bytes:
        named = canonical_form(piece, "alpha")
        if named not in forms:
            forms[named] = canonical_form(piece, "extents")
        return forms[named]

    def look(node: Node, operands: Sequence[Value]) -> tuple[object, ...]:
        attrs = spell_attrs(node.attrs) if node.attrs else b""
        inner = [form(index.piece(node, block)) for block in inner_blocks(node)]
        blocks = (*inner, _sharing(node)) if inner else ()
        types = [tuple([pattern(value.type) for value in values]) for values in (operands, node.outputs)]
        return node.op, len(node.inputs), *types, attrs, blocks

    looks = map(look, index.nodes, index.operands)
    return [known.setdefault(found, len(known)) for found in looks]


def _sharing(node: Node) -> tuple[int, ...]:
    """The pattern of values from outside that several blocks read, or that are also operands."""
    first: dict[Value, int] = {}
    read = [node.inputs, *(_read_by(block) for block in node.blocks)]
    return tuple([first.setdefault(value, len(first)) for values in read for value in values])


def _read_by(block: Block) -> tuple[Value, ...]:
    return free_values(Node(0, "prim::If", blocks=(block,)))


def _pattern(type: Type) -> str:
    """A type without the parts that may differ between the places of a pattern: extents above one, strides, gradients."""
    if not isinstance(type, TensorType):
        return "None" if type == NONE else repr(type) if "Tensor" in str(type) else str(type)
    if type.shape is None:
        return f"{type.dtype}?"
    return f"{type.dtype}({','.join('1' if dim == 1 else 'n' if isinstance(dim, int) else '*' for dim in type.shape)})"


# --- two places of a region -------------------------------------------------------------------------------------------

_RELATIONS: Final[tuple[Relation, ...]] = ("alpha", "extents")
"""By which blocks are the same; `alpha` is tried first, as it is four times faster and implies the other."""


def same_region(index: BlockIndex, leader: Sequence[int], member: Sequence[int]) -> bool:
    """Whether the nodes of two places correspond one by one: the same ops, attributes and blocks, and edges between the same
    columns. Constants among the operands, extents, and values from outside may differ; blocks must be the same by `extents`."""
    ours = {value: (c, k) for c, node in enumerate(leader) for k, value in enumerate(index.nodes[node].outputs)}
    theirs = {value: (c, k) for c, node in enumerate(member) for k, value in enumerate(index.nodes[node].outputs)}
    if len(ours) != len(theirs) or len(set(member)) != len(leader):
        return False
    return all(
        _same_node(index, a, b) and [ours.get(x) for x in index.operands[a]] == [theirs.get(y) for y in index.operands[b]]
        for a, b in zip(leader, member, strict=True)
    )


def _same_node(index: BlockIndex, a: int, b: int) -> bool:
    """Whether two nodes and their blocks are the same; a look has all but the bits of tensors and the proof of blocks."""
    one, other = index.nodes[a], index.nodes[b]
    if index.looks[a] != index.looks[b] or not all(same_bits(payload, other.attrs.get(key)) for key, payload in one.attrs.items()):
        return False
    outer = dict(zip(index.operands[a], index.operands[b], strict=True))
    for x, y in zip(inner_blocks(one), inner_blocks(other), strict=True):
        left, right = index.piece(one, x), index.piece(other, y)
        found = (match(left, right, relation) for relation in _RELATIONS)
        if not any(each is not None and all(outer.get(v, w) is w for v, w in each.values.items()) for each in found):
            return False
    return True
