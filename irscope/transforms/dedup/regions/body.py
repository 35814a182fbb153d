"""Builds a block of its own from a place of a region: operands from outside become parameters, constants are copied."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from irscope.ir import Block, Node, Value, make_block, make_node, make_value, new_id
from irscope.ir.module import renamed_body
from irscope.transforms.dedup.regions.block_index import free_values
from irscope.transforms.dedup.regions.repeat import Repeat, Slot

__all__ = ["region_body"]

Remake = Callable[[Value, int, int], Value]
"""Returns the value that represents a result in the body, by column and number."""


def region_body(repeat: Repeat, place: int, *, lift: bool = False, results: Remake | None = None) -> Block:
    """Returns the nodes of a place over parameters. Constants that differ between places become parameters with `lift`, and are
    otherwise in the body, as are constants that are the same everywhere."""
    return _Body(repeat, place, lift, results or (lambda value, column, number: value)).made()


class _Body:
    def __init__(self, repeat: Repeat, place: int, lift: bool, results: Remake) -> None:
        self._repeat = repeat
        self._place = place
        self._results = results
        self._nodes: list[Node] = []
        self._constants: dict[Value, Value] = {}
        self._inside: dict[Value, Value] = {}
        self._params: dict[int, Value] = {}
        for number, values in enumerate(repeat.inputs):
            if lift or not repeat.is_constant_hole(number):
                value = values[place]
                self._params[number] = make_value(
                    new_id(), repeat.input_type(number) if lift else value.type, value.name
                )

    def made(self) -> Block:
        repeat = self._repeat
        nodes = repeat.places[self._place]
        for column, node in enumerate(nodes):
            self._nodes.extend(self._copied(column, node))
        returns = [self._inside[nodes[column].outputs[number]] for column, number in repeat.outputs]
        return make_block(new_id(), tuple(self._params.values()), tuple(self._nodes), tuple(returns))

    def _copied(self, column: int, node: Node) -> Iterator[Node]:
        operands = self._repeat.operands[self._place][column]
        stand_ins = []
        for number, value in enumerate(operands):
            if value in self._inside:
                stand_ins.append(self._inside[value])
                continue
            parameter = self._params.get(self._repeat.parameter_of.get(Slot(column, number), -1))
            if parameter is None and value not in self._constants:
                constant = self._repeat.graph.producer[value]
                self._constants[value] = copy = make_value(new_id(), value.type, value.name)
                yield make_node(
                    new_id(), constant.op, (), (copy,), constant.attrs, (), constant.location, constant.scope
                )
            stand_ins.append(parameter or self._constants[value])
        outputs = tuple([self._results(value, column, number) for number, value in enumerate(node.outputs)])
        self._inside.update(zip(node.outputs, outputs, strict=True))
        blocks = node.blocks
        if blocks:
            outer = dict(zip(free_values(node), stand_ins[len(node.inputs) :], strict=True))
            blocks = tuple([renamed_body(block, outer) for block in blocks])
        inputs = tuple(stand_ins[: len(node.inputs)])
        yield make_node(node.id, node.op, inputs, outputs, node.attrs, blocks, node.location, node.scope)
