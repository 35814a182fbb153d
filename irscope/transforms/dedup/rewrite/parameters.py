"""The holes of a class: the value of each in each member, and the fewest parameters that determine all of them.

Two holes with equal values in every member share one parameter. A size that is always the same multiple of another, or
always larger by the same amount, follows from it; so does a float that is the same integer multiple of another to the bit.
A place with equal values in all members needs no parameter, and stays as it is.

*Sizes* that differ between members are parameters, or unknown extents in types. Where a function consists of ops whose results
follow from their operands, its types only repeat what operands determine: a type that differs between members can be weakened
without changing what is computed. So an extent that differs becomes unknown in the leader, and a size that is an op's operand
(`view(x, [n, 4])`) becomes a parameter like any number. Ops of MLIR's dialects are different: the result of `tensor.empty` is
determined by its result type and by no operand. With such an op, or an unknown op, the function stays as it is, and a remark
names the op.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, Any

from irscope.errors import new_table
from irscope.ir import ANY, CONTROL_FLOW, GROUPS, Dim, Graph, TensorData, TensorType, Type, Value, erase_refinements
from irscope.ops.registry import has_value_tensors, schema_of
from irscope.transforms.dedup.matching import Match, match
from irscope.transforms.dedup.pairing import same_bits
from irscope.transforms.dedup.piece import RANK, HoleKind, Piece, Relation, Site, format_payload

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class HoleRow:
    kind: HoleKind
    site: Site
    """The place of the hole in the leader."""
    place: str
    """The place in words."""
    values: tuple[Any, ...]
    """The values at the place, in the members' order; the leader's is the first."""
    parameter: int | None
    """The parameter that determines it; None where it is equal everywhere."""
    follows: str
    """How it follows from the parameter: empty for the parameter itself, `4 ×` or `+ 1` where it is computed."""

    @property
    def dependence(self) -> str:
        """How the hole depends on a parameter, in words."""
        if self.parameter is None:
            return "equal everywhere"
        if self.follows[:1] in ("+", "-"):
            return f"parameter {self.parameter} {self.follows}"
        return f"{self.follows} parameter {self.parameter}".strip()


@dataclass(frozen=True)
class ClassHoles:
    """All holes of a class, by the leader's places."""

    leader: Piece
    members: tuple[Piece, ...]
    """The members, the leader first."""
    matches: tuple[Match, ...]
    """The matches of the leader with each member, in their order."""
    rows: tuple[HoleRow, ...]

    @property
    def parameters(self) -> list[HoleRow]:
        first: dict[int, HoleRow] = {}
        for row in self.rows:
            if row.parameter is not None and not row.follows:
                first.setdefault(row.parameter, row)
        return [first[number] for number in sorted(first)]

    def passed(self, is_passed: Callable[[HoleRow], bool]) -> tuple[list[HoleRow], dict[Site, int]]:
        """Returns one hole for each number that callers pass, in order, and which of these numbers each place reads."""
        rows: dict[tuple[int | None, str], HoleRow] = {}
        chosen = [row for row in self.rows if is_passed(row)]
        for row in chosen:
            rows.setdefault((row.parameter, row.follows), row)
        number = {key: place for place, key in enumerate(rows)}
        return list(rows.values()), {row.site: number[row.parameter, row.follows] for row in chosen}

    def follows_from_operands(self, row: HoleRow) -> bool:
        """Whether a hole needs no parameter because operands determine it: an extent or a stride in a type, or in that of a constant
        tensor that is passed."""
        if row.kind not in ("extent", "stride"):
            return False
        if row.site.part == "type":
            return isinstance(row.site.subject, Value)
        passed = (other.site[:3] for other in self.rows if other.kind == "constant" and other.parameter is not None)
        return row.site.part == "operand" and row.site[:3] in passed

    def table(self) -> "pd.DataFrame":
        """One row per hole, one column per member, and what the hole depends on."""
        columns, rows = ["hole", "kind", *(piece.label for piece in self.members), "varies"], []
        for row in self.rows:
            cells = [format_payload(value) if isinstance(value, TensorData) else value for value in row.values]
            rows.append([row.place, row.kind, *cells, row.dependence])
        return new_table(rows, columns=columns, dtype=object)  # so that a None does not turn sizes into floats


def proof(leader: Piece, member: Piece, relation: Relation) -> Match | None:
    """Returns how a member corresponds to its leader. Relations with holes distinguish computing a value twice from computing it
    once, so a member may correspond by a finer relation only."""
    found = match(leader, member, relation)
    if found is None and RANK[relation] > RANK["arguments"]:
        found = match(leader, member, "arguments")
    return found


def class_holes(pieces: Sequence[Piece], relation: Relation) -> ClassHoles:
    """Returns the holes of pieces that are the same by a relation, the leader first; a piece without a direct match with the leader
    is left out."""
    leader = pieces[0]
    pairs = [(piece, found) for piece in pieces if (found := proof(leader, piece, relation)) is not None]
    columns = [{(pair.kind, pair.site): pair.right for pair in found.slots} for _, found in pairs]
    own = {(pair.kind, pair.site): pair.left for pair in pairs[0][1].slots}
    vectors = {key: tuple(column.get(key, value) for column in columns) for key, value in own.items()}
    return ClassHoles(leader, tuple(piece for piece, _ in pairs), tuple(found for _, found in pairs), tuple(_rows(vectors, pairs[0][1])))


def _rows(vectors: dict[tuple[HoleKind, Site], tuple[Any, ...]], own: Match) -> list[HoleRow]:
    """The rows of holes that vary, in the leader's order, then of those that are equal everywhere."""
    varying: list[tuple[HoleKind, Site, tuple[Any, ...]]] = []
    equal: list[HoleRow] = []
    for (kind, site), values in vectors.items():
        if all(same_bits(value, values[0]) for value in values):
            equal.append(HoleRow(kind, site, own.place(site, kind), values, None, ""))
        else:
            varying.append((kind, site, values))
    bases: list[tuple[Any, ...]] = []
    for values in sorted((values for _, _, values in varying), key=_size):
        if not any(_follows(values, base) is not None for base in bases):
            bases.append(values)
    number: dict[int, int] = {}
    rows = []
    for kind, site, values in varying:
        found = ((place, how) for place, base in enumerate(bases) if (how := _follows(values, base)) is not None)
        place, how = min(found, key=lambda entry: entry[1])  # the parameter itself rather than one that it follows from
        rows.append(HoleRow(kind, site, own.place(site, kind), values, number.setdefault(place, len(number)), how))
    return rows + equal


def _size(values: tuple[Any, ...]) -> float:
    """A sort key that puts small sizes first, so that others are multiples of them."""
    numbers = all(type(value) is int for value in values) or all(map(_is_plain_float, values))
    return float(sum(abs(value) for value in values)) if numbers else 0.0


def _follows(values: tuple[Any, ...], base: tuple[Any, ...]) -> str | None:
    """How values follow from those of a parameter: as the same, a multiple, or a sum; None if they do not."""
    if all(map(same_bits, values, base)):
        return ""
    if all(map(_is_plain_float, (*values, *base))):
        factor = values[0] / base[0]
        exact = factor.is_integer() and all(one * factor == value for value, one in zip(values, base, strict=True))
        return f"{factor:.0f} ×" if exact else None
    if not all(type(value) is int for value in (*values, *base)) or 0 in base:
        return None
    if all(value % one == 0 for value, one in zip(values, base, strict=True)):
        factors = {value // one for value, one in zip(values, base, strict=True)}
        if len(factors) == 1:
            return f"{factors.pop()} ×"
    offsets = {value - one for value, one in zip(values, base, strict=True)}
    return f"{'+' if (offset := offsets.pop()) > 0 else '-'} {abs(offset)}" if len(offsets) == 1 else None


def _is_plain_float(value: Any) -> bool:
    """Whether a value is a finite, nonzero float, of which another can be a multiple."""
    return type(value) is float and isfinite(value) and value != 0


# --- sizes that differ ------------------------------------------------------------------------------------------------


def why_not_free(holes: ClassHoles, functions: Sequence[Graph]) -> str:
    """Returns why extents of a class cannot be unknown in its functions; empty if they can, or do not differ."""
    varying = {
        row.site.subject for row in holes.rows
        if row.parameter is not None and row.kind in ("extent", "stride") and isinstance(row.site.subject, Value)
    }  # fmt: skip
    if not varying:
        return ""
    matched = set(holes.matches[0].nodes)
    for node in (node for function in functions for node in function.nodes()):
        if node.op != "prim::Constant" and node not in matched:
            return f"{node.op} is unused, and may not work for other sizes: run the pass dce first"
        is_plain = schema_of(node) is not None or node.op in CONTROL_FLOW or node.op in GROUPS or node.op.startswith("prim::")
        if any(value in varying for value in (*node.inputs, *node.outputs)) and (has_value_tensors(node.op) or not is_plain):
            return f"sizes differ at {node.op}, whose types may decide what it computes: they cannot be passed as operands"
    return ""


def types_in_common(holes: ClassHoles) -> dict[Value, Type]:
    """Returns, for each value of the leader whose type differs between members, the type that covers all of them."""
    found: dict[Value, Type] = {}
    for value in holes.matches[0].values:
        types = [match.values[value].type for match in holes.matches if value in match.values]
        if any(type != types[0] for type in types):
            found[value] = common_type(types)
    return found


def covering_type(row: HoleRow, leaf: Type) -> Type:
    """Returns the type of the parameter for constant tensors: the type that covers all of them."""
    tensors = [value for value in row.values if isinstance(value, TensorData)]
    types: list[Type] = [TensorType(each.dtype, tuple(each.shape), device=each.device) for each in tensors]
    return leaf if not types or all(type == types[0] for type in types) else common_type(types)


def common_type(types: Sequence[Type]) -> Type:
    """Returns the most precise type that covers several types; properties that differ between tensors are unknown.

    >>> str(common_type([TensorType("float32", (2, 3), (3, 1)), TensorType("float32", (2, 4), (4, 1))]))
    'Float(2, *)'
    """
    first = types[0]
    if all(type == first for type in types):
        return first
    tensors = [type for type in types if isinstance(type, TensorType)]
    if len(tensors) < len(types):
        return common_type(list(map(erase_refinements, types))) if first != erase_refinements(first) else ANY
    names = ("dtype", "strides", "device", "requires_grad")
    facts = {name: getattr(tensors[0], name) if len({getattr(type, name) for type in tensors}) == 1 else None for name in names}
    shapes = [type.shape for type in tensors if type.shape is not None]
    shape: tuple[Dim, ...] | None = None
    if len(shapes) == len(tensors) and len(set(map(len, shapes))) == 1:
        shape = tuple([dims[0] if all(dim == dims[0] for dim in dims) else None for dims in zip(*shapes, strict=True)])
    return TensorType(shape=shape, undefined=any(type.undefined for type in tensors), **facts)
