"""Turns the holes of a class's function into parameters, and its callers' calls into calls that pass them."""

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
"""Ops that call a function by name, with operands for all its parameters or the first of them."""


@dataclass(frozen=True)
class Opened:
    """The parameters that a leader's function gets for its holes."""

    rows: tuple[HoleRow, ...]
    """One hole for each parameter."""
    params: tuple[Value, ...]
    at: int | None
    """The parameter before which they are inserted; None for behind the last."""
    reads: Mapping[Node, Mapping[int, Value]]
    """The operands that read them, by node and place."""
    lists: Mapping[Node, Sequence[Node]]
    """The nodes that pack some of them into lists, by the node that reads the lists."""
    types: Mapping[Value, Type]
    """The types that hold in every member, for values whose types differ."""


def why_not_opened(holes: ClassHoles, functions: Sequence[Graph]) -> str:
    """Returns why the holes of a class cannot all be parameters of its functions; empty if they can."""
    inside = [set(function.nodes()) for function in functions]
    for row in holes.rows:
        if row.parameter is None or is_said_by_operands(row, holes):
            continue
        if not is_number(row):
            return f"{row.place} differs, which is part of a type or an attribute: no operand can pass it"
        if not any(row.site.subject in nodes for nodes in inside):
            return f"{row.place} differs, which is in a function that only the piece itself calls"
    return why_not_free(holes, functions)


def is_number(row: HoleRow) -> bool:
    """Whether a hole becomes a parameter of a function: varying data, or a varying size, that is an operand of a node."""
    is_size = row.kind == "size" and row.parameter is not None and row.site.part == "operand"
    return is_parameter(row) or (is_size and all(type(value) is int for value in row.values))


def opened(function: Graph, holes: ClassHoles, at: int | None) -> Opened:
    """Returns one more parameter for each hole in the function, before the parameter `at`, or behind the last."""
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
    """The nodes that build a list of numbers, some of which are parameters."""
    made: list[Node] = []
    items = []
    for place, number in enumerate(payload):
        if place not in own:
            made.append(constant_node(number, make_value(new_id(), INT, "")))
        items.append(own[place] if place in own else made[-1].output)
    output = make_value(new_id(), type, "")
    return [*made, make_node(new_id(), "prim::ListConstruct", tuple(items), (output,), EMPTY, (), None, "")]


def with_parameters(graph: Graph, made: Opened) -> Graph:
    """Returns the function, whose nodes read the parameters already, with these parameters and without unused constants."""
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
    """A call of the leader that replaces a call of a member."""

    order: tuple[int, ...]
    """For each parameter of the leader, the number of its argument."""
    first: int
    """The number of operands before the arguments."""
    taken: int
    """The number of operands that are arguments."""
    values: tuple[Any, ...]
    """The additional numbers to pass."""
    types: tuple[Type, ...]
    attrs: Mapping[str, Any]

    def operands(self, inputs: Sequence[Value]) -> tuple[list[Node], tuple[Value, ...]]:
        """Returns the nodes of the constants to pass, and all operands."""
        own = inputs[self.first : self.first + self.taken]
        constants = [
            constant_node(value, make_value(new_id(), type, ""))
            for value, type in zip(self.values, self.types, strict=True)
        ]
        passed = (*(own[at] for at in self.order), *(constant.output for constant in constants))
        return constants, (*inputs[: self.first], *passed, *inputs[self.first + self.taken :])


def call_of(node: Node, function: Graph, leader: Graph, found: Match, made: Opened, member: int) -> Call | str:
    """Returns the call that replaces a call of a member, or why it cannot call the leader."""
    order = arguments_of(function, leader, found)
    segments = _segments(node)
    if node.op not in CALLS or (node.op == "flow::dispatch" and segments is None):
        return f"it is named by {node.op}, whose arguments are not known"
    first, taken = 0, len(node.inputs)
    attrs = dict(node.attrs)
    if node.op == "flow::dispatch" and segments is not None:
        first, taken = segments[:2]
        if sorted(order[:taken]) != list(range(taken)) or order[taken:] != list(range(taken, len(order))):
            return "a caller passes some of its parameters as results, which have separate positions"
        if made.rows:
            sizes = [first, taken + len(made.rows), *segments[2:]]
            attrs["operandSegmentSizes"] = f"array<i32: {', '.join(map(str, sizes))}>"
    values = tuple([row.values[member] for row in made.rows])
    return Call(
        tuple(order[:taken]), first, taken, values, tuple([value.type for value in made.params]), FrozenDict(attrs)
    )


def arguments_of(function: Graph, leader: Graph, found: Match) -> list[int]:
    """Returns, for each parameter of the leader's function, the place of the corresponding parameter of the member's."""
    places = {value: place for place, value in enumerate(function.inputs)}
    return [places[found.values[value]] for value in leader.inputs]


def taken_by(node: Node) -> int | None:
    """Returns the number of parameters that a call passes by value; None for all."""
    segments = _segments(node) if node.op == "flow::dispatch" else None
    return None if segments is None else segments[1]


def _segments(node: Node) -> list[int] | None:
    """The numbers of operands of each kind that an MLIR op has; None if it does not declare them."""
    text = node.attrs.get("operandSegmentSizes")
    if not isinstance(text, str) or not text.startswith("array<i32: "):
        return None
    return [int(word) for word in text.removeprefix("array<i32: ").removesuffix(">").split(",")]
