"""A repeated region: its places, their inputs and outputs, and the block that a place becomes as a function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from irscope.analysis.per_graph import alias_db_of
from irscope.ir import Block, Graph, Node, Value, constant_value, make_block, make_node, make_value, new_id
from irscope.ir.module import renamed_body
from irscope.ir.structural import free_values
from irscope.transforms.dedup.pairing import same_bits
from irscope.transforms.dedup.rewrite.block_index import BlockIndex
from irscope.transforms.dedup.rewrite.parameters import common_type
from irscope.transforms.grouping import common_scope

Slot = tuple[int, int]
"""An operand in a region: the column of its node, and its number."""


@dataclass(frozen=True, eq=False)
class Repeat:
    """Equal regions of one block, whose nodes correspond column by column; each pair was matched (`same_region`)."""

    graph: Graph
    block: Block
    places: tuple[tuple[Node, ...], ...]
    """The nodes of each place, in one order that every place allows; places in program order."""
    operands: tuple[tuple[tuple[Value, ...], ...], ...]
    """The operands of each node of each place, including the values that its blocks read."""

    @staticmethod
    def of(index: BlockIndex, places: Sequence[Sequence[int]]) -> Repeat:
        """The region of nodes that are given by their numbers."""
        nodes = tuple([tuple([index.nodes[node] for node in place]) for place in places])
        operands = tuple([tuple([index.operands[node] for node in place]) for place in places])
        return Repeat(index.graph, index.block, nodes, operands)

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
        """The number of nodes in one place."""
        return len(self.places[0])

    @property
    def nodes_saved(self) -> int:
        """The number of nodes saved by writing the region once and calling it."""
        return (len(self) - 1) * self.size - len(self)

    @cached_property
    def inputs(self) -> tuple[tuple[Value, ...], ...]:
        """The arguments of the region, one entry per parameter: the value in each place. Two operands share a parameter if
        they are the same value in every place. Constants that are the same in every place are not parameters."""
        return tuple(self._parameters)

    @cached_property
    def parameter_of(self) -> dict[Slot, int]:
        """The parameter number of each operand from outside."""
        return {slot: number for number, slots in enumerate(self._parameters.values()) for slot in slots}

    @cached_property
    def _parameters(self) -> dict[tuple[Value, ...], list[Slot]]:
        own = {value for node in self.places[0] for value in node.outputs}
        found: dict[tuple[Value, ...], list[Slot]] = {}
        for column, operands in enumerate(self.operands[0]):
            for number in (number for number, value in enumerate(operands) if value not in own):
                values = tuple([row[column][number] for row in self.operands])
                if not self._is_shared_constant(values):
                    found.setdefault(values, []).append((column, number))
        return found

    def _is_shared_constant(self, values: Sequence[Value]) -> bool:
        """Whether a value is the same plain constant in every place, so that it belongs to the region itself."""
        producers = [self.graph.producer.get(value) for value in values]
        first = producers[0]
        if first is None or first.op != "prim::Constant" or not _is_plain(constant_value(first)):
            return False
        if isinstance(constant_value(first), tuple) and any(map(alias_db_of(self.graph).is_written, values)):
            return False  # a list that is written is one memory for all calls
        return all(
            producer is not None and producer.op == "prim::Constant" and producer.output.type == first.output.type
            and same_bits(constant_value(producer), constant_value(first))
            for producer in producers
        )  # fmt: skip

    @cached_property
    def outputs(self) -> tuple[tuple[int, int], ...]:
        """The results that are used outside in some place, as columns and numbers."""
        users, returned = self.graph.users, set(self.block.returns)
        homes = list(map(frozenset, self.places))

        def is_read(value: Value, home: frozenset[Node]) -> bool:
            return value in returned or any(not self._holds(use.user, home) for use in users.get(value, ()))

        return tuple([
            (column, number)
            for column, node in enumerate(self.places[0])
            for number in range(len(node.outputs))
            if any(is_read(nodes[column].outputs[number], home) for nodes, home in zip(self.places, homes, strict=True))
        ])  # fmt: skip

    def _holds(self, user: Node | Block, home: frozenset[Node]) -> bool:
        """Whether a user is in the region, or in a block of one of its nodes."""
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
        return common_scope(dict.fromkeys(node.scope for node in self.places[place]))

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The labels of the places: their module paths where all differ, else their numbers."""
        scopes = tuple([self.scope(place) for place in range(len(self))])
        return scopes if len(set(scopes)) == len(scopes) else tuple([f"place {place}" for place in range(len(self))])

    def __repr__(self) -> str:
        return f"<Repeat: {self.size} nodes ×{len(self)}>"


def _is_plain(payload: Any) -> bool:
    if isinstance(payload, tuple | list):
        return all(map(_is_plain, payload))
    return payload is None or isinstance(payload, int | float | complex | str)


# --- a place as a block of its own ------------------------------------------------------------------------------------

Remake = Callable[[Value, int, int], Value]
"""Returns the value that represents a result in the body, by column and number."""


def region_body(repeat: Repeat, place: int, *, lift: bool = False, results: Remake | None = None) -> Block:
    """Returns the nodes of a place over parameters. Constants that differ between places become parameters with `lift`, and are
    otherwise in the body, as are constants that are the same everywhere."""
    made: list[Node] = []
    copies: dict[Value, Value] = {}
    inside: dict[Value, Value] = {}
    params: dict[int, Value] = {}
    for number, values in enumerate(repeat.inputs):
        producers = [repeat.graph.producer.get(value) for value in values]
        if lift or not all(producer is not None and producer.op == "prim::Constant" for producer in producers):
            type = common_type([value.type for value in values]) if lift else values[place].type
            params[number] = make_value(new_id(), type, values[place].name)

    def stand_in(value: Value, slot: Slot) -> Value:
        if value in inside:
            return inside[value]
        parameter = params.get(repeat.parameter_of.get(slot, -1))
        if parameter is None and value not in copies:
            constant = repeat.graph.producer[value]
            copies[value] = copy = make_value(new_id(), value.type, value.name)
            made.append(make_node(new_id(), constant.op, (), (copy,), constant.attrs, (), constant.location, constant.scope))
        return parameter or copies[value]

    for column, (node, operands) in enumerate(zip(repeat.places[place], repeat.operands[place], strict=True)):
        own = [stand_in(value, (column, number)) for number, value in enumerate(operands)]
        outputs = node.outputs if results is None else tuple([results(value, column, i) for i, value in enumerate(node.outputs)])
        inside.update(zip(node.outputs, outputs, strict=True))
        inputs, blocks = tuple(own[: len(node.inputs)]), node.blocks
        if blocks:
            outer = dict(zip(free_values(node), own[len(inputs) :], strict=True))
            blocks = tuple([renamed_body(block, outer) for block in blocks])
        made.append(make_node(node.id, node.op, inputs, outputs, node.attrs, blocks, node.location, node.scope))
    returns = [inside[repeat.places[place][column].outputs[number]] for column, number in repeat.outputs]
    return make_block(new_id(), tuple(params.values()), tuple(made), tuple(returns))
