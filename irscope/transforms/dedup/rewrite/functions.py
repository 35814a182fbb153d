"""A function of a class with its holes as parameters, and what each caller has to pass then."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from irscope._base.frozen import EMPTY, FrozenDict
from irscope.ir import (
    INT,
    Block,
    Graph,
    ListType,
    Node,
    Rewriter,
    Type,
    Value,
    constant_value,
    make_node,
    make_value,
    new_id,
)
from irscope.transforms.dedup.matching import Match
from irscope.transforms.dedup.rewrite.free_extents import (
    is_said_by_operands,
    relaxed,
    told_type,
    types_in_common,
    why_not_free,
)
from irscope.transforms.dedup.rewrite.group_body import constant_node, is_parameter, parameter_type
from irscope.transforms.dedup.rewrite.parameters import ClassHoles, HoleRow

__all__ = [
    "CALLS",
    "Call",
    "Opened",
    "arguments_of",
    "call_of",
    "opened",
    "taken_by",
    "why_not_opened",
    "with_parameters",
]

CALLS: Final = frozenset({"func::call", "util::call", "flow::dispatch"})
"""Ops that call a function by name with operands that are its parameters, or the first of them."""


@dataclass(frozen=True)
class Opened:
    """The parameters that a leader's function gets for its holes."""

    rows: tuple[HoleRow, ...]
    """One hole of each."""
    params: tuple[Value, ...]
    at: int | None
    """Before which parameter they are put; None behind the last."""
    reads: Mapping[Node, Mapping[int, Value]]
    """The operands that read them."""
    lists: Mapping[Node, Sequence[Node]]
    """What packs some of them into lists, in front of the nodes that read those."""
    types: Mapping[Value, Type]
    """What is true in every member of values whose types differ."""


def why_not_opened(holes: ClassHoles, functions: Sequence[Graph]) -> str:
    """Why the holes of a class cannot all be parameters of its functions; empty if they can."""
    inside = [set(function.nodes()) for function in functions]
    for row in holes.rows:
        if row.parameter is None or is_said_by_operands(row, holes):
            continue
        if not is_number(row):
            return f"{row.place} differs, which stands in a type or an attribute: no operand can say it"
        if not any(row.site.subject in nodes for nodes in inside):
            return f"{row.place} differs, which is in a function that only the piece itself calls"
    return why_not_free(holes, functions)


def is_number(row: HoleRow) -> bool:
    """Whether a hole becomes a parameter of a function: data that varies, or a size that an op is told, as an operand of a node."""
    is_size = row.kind == "size" and row.parameter is not None and row.site.part == "operand"
    return is_parameter(row) or (is_size and all(type(value) is int for value in row.values))


def opened(function: Graph, holes: ClassHoles, at: int | None) -> Opened:
    """One more parameter for each hole in the function, before the parameter `at`, or behind the last."""
    nodes = set(function.nodes())
    rows: list[HoleRow] = []
    params: list[Value] = []
    known: dict[tuple[int | None, str], int] = {}
    entries: dict[tuple[Node, int], dict[int, Value]] = {}
    reads: dict[Node, dict[int, Value]] = {}
    for row in holes.rows:
        node = row.site.subject
        if not is_number(row) or not isinstance(node, Node) or node not in nodes:
            continue
        key = (row.parameter, row.follows)
        if key not in known:
            known[key] = len(rows)
            rows.append(row)
            type = INT if row.kind == "size" else told_type(row, parameter_type(row.values[0], node.inputs[row.site.place].type))
            params.append(make_value(new_id(), type, ""))
        if isinstance(node.inputs[row.site.place].type, ListType):
            entries.setdefault((node, row.site.place), {})[row.site.index] = params[known[key]]
        else:
            reads.setdefault(node, {})[row.site.place] = params[known[key]]
    lists: dict[Node, list[Node]] = {}
    for (node, place), own in entries.items():
        made = _packed(constant_value(function.producer[node.inputs[place]]), own, node.inputs[place].type)
        lists.setdefault(node, []).extend(made)
        reads.setdefault(node, {})[place] = made[-1].output
    return Opened(tuple(rows), tuple(params), at, reads, lists, types_in_common(holes))


def _packed(payload: Sequence[Any], own: Mapping[int, Value], type: Type) -> list[Node]:
    """A list of numbers, some of which are parameters."""
    made: list[Node] = []
    items = []
    for place, number in enumerate(payload):
        if place not in own:
            made.append(constant_node(number, make_value(new_id(), INT, "")))
        items.append(own[place] if place in own else made[-1].output)
    output = make_value(new_id(), type, "")
    return [*made, make_node(new_id(), "prim::ListConstruct", tuple(items), (output,), EMPTY, (), None, "")]


def with_parameters(graph: Graph, made: Opened) -> Graph:
    """The function with its parameters, whose nodes read them already, without constants that nobody reads any more."""
    before = {value for node, places in made.reads.items() for value in (node.inputs[place] for place in places)}
    rewriter = Rewriter(graph)
    for value in before:
        if value not in graph.users:
            rewriter.erase(graph.producer[value], reason="callers pass it")
    graph = rewriter.finish()
    place = len(graph.inputs) if made.at is None else made.at
    params = (*graph.inputs[:place], *made.params, *graph.inputs[place:])
    return relaxed(replace(graph, body=Block(graph.body.id, params, graph.body.nodes, graph.body.returns)), made.types)


@dataclass(frozen=True)
class Call:
    """What a call of a member becomes: a call of the leader."""

    order: tuple[int, ...]
    """For each parameter of the leader, which operand it is."""
    first: int
    """How many operands stand before the arguments."""
    taken: int
    """How many of the operands are arguments."""
    values: tuple[Any, ...]
    """The numbers that are passed."""
    types: tuple[Type, ...]
    attrs: Mapping[str, Any]

    def operands(self, inputs: Sequence[Value]) -> tuple[list[Node], tuple[Value, ...]]:
        """The constants to be passed, and all operands."""
        own = inputs[self.first : self.first + self.taken]
        constants = [
            constant_node(value, make_value(new_id(), type, ""))
            for value, type in zip(self.values, self.types, strict=True)
        ]
        passed = (*(own[at] for at in self.order), *(constant.output for constant in constants))
        return constants, (*inputs[: self.first], *passed, *inputs[self.first + self.taken :])


def call_of(node: Node, function: Graph, leader: Graph, found: Match, made: Opened, member: int) -> Call | str:
    """What a call of a member becomes; or why it cannot call the leader."""
    order = arguments_of(function, leader, found)
    segments = _segments(node)
    if node.op not in CALLS or (node.op == "flow::dispatch" and segments is None):
        return f"it is named by {node.op}, of which it is not known what it passes"
    first, taken = 0, len(node.inputs)
    attrs = dict(node.attrs)
    if node.op == "flow::dispatch" and segments is not None:
        first, taken = segments[:2]
        if sorted(order[:taken]) != list(range(taken)) or order[taken:] != list(range(taken, len(order))):
            return "a caller gives some of its parameters as results, which have a place of their own"
        if made.rows:
            sizes = [first, taken + len(made.rows), *segments[2:]]
            attrs["operandSegmentSizes"] = f"array<i32: {', '.join(map(str, sizes))}>"
    values = tuple([row.values[member] for row in made.rows])
    return Call(
        tuple(order[:taken]), first, taken, values, tuple([value.type for value in made.params]), FrozenDict(attrs)
    )


def arguments_of(function: Graph, leader: Graph, found: Match) -> list[int]:
    """For each parameter of the leader's function, the place of the member's that it corresponds to."""
    places = {value: place for place, value in enumerate(function.inputs)}
    return [places[found.values[value]] for value in leader.inputs]


def taken_by(node: Node) -> int | None:
    """How many parameters a call passes by value: all where None."""
    segments = _segments(node) if node.op == "flow::dispatch" else None
    return None if segments is None else segments[1]


def _segments(node: Node) -> list[int] | None:
    """How many operands of each kind an op of MLIR has."""
    text = node.attrs.get("operandSegmentSizes")
    if not isinstance(text, str) or not text.startswith("array<i32: "):
        return None
    return [int(word) for word in text.removeprefix("array<i32: ").removesuffix(">").split(",")]
