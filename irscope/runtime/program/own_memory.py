"""What a program's code must know of its memory: when values die, which ones a caller gets, and rows that a loop writes in place."""

from collections.abc import Callable, Iterator, Sequence, Set
from itertools import product
from typing import Any

from irscope._base.nested import grouped, reached
from irscope.ir import Block, Node, Value
from irscope.ops.registry import effect_of
from irscope.ops.traits import ANOTHER_OBJECT


def may_reach_caller(nodes: Sequence[Node], returns: Sequence[Value]) -> Set[Value]:
    """Returns the values of all blocks that a program may return as they are, through loops, branches and ops that return an operand."""
    handed_on = grouped(pair for node in nodes for pair in _handed_on(node))
    starts = [*returns, *(value for node in nodes if _may_return_operand(node) for value in node.inputs)]
    return reached(starts, lambda value: handed_on.get(value, ())).keys()


def _handed_on(node: Node) -> Iterator[tuple[Value, Value]]:
    """Yields the values that a loop or branch hands on, each with one of those that it is handed on from."""
    if node.op == "prim::Loop":
        (turn,) = node.blocks
        for start, param, after, result in zip(node.inputs[2:], turn.params[1:], turn.returns[1:], node.outputs, strict=True):
            yield from product((param, result), (start, after))
    elif node.op == "prim::If":
        for block in node.blocks:
            yield from zip(node.outputs, block.returns, strict=True)


def _may_return_operand(node: Node) -> bool:
    """Checks if a result may be an operand itself, or hold it."""
    holds = node.op in ("prim::ListConstruct", "prim::TupleConstruct", "prim::DictConstruct")
    return holds or (not node.blocks and node.op not in ANOTHER_OBJECT and effect_of(node) in ("view", "opaque"))


def row_writer(node: Node, function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns what writes a row into the table itself, and returns the table; `function` returns a copy, and says what is wrong."""
    is_one = node.op == "aten::select_scatter"

    def write(table: Any, row: Any, axis: int = 0, *ends: Any) -> Any:
        place = (slice(None),) * (axis % table.ndim) + ((ends[0] if is_one else slice(*(ends or (None,)))),)
        try:
            is_alike = table[place].shape == row.shape
        except IndexError:
            is_alike = False
        if not is_alike:
            return function(table, row, axis, *ends)
        table[place] = row
        return table

    return write


def copied(table: Any, limit: int, go: bool) -> Any:
    """Returns a copy of a loop's initial value if the loop runs at all."""
    if limit < 1 or not go:
        return table
    return table.clone() if hasattr(table, "clone") else table.copy(order="K")


def last_uses(body: Block) -> dict[Node | Block, list[Value]]:
    """Returns the values that die after each node, or with the results of each block.

    The walk keeps the current node of each nesting depth; a use inside nested blocks counts as a use by the node at the
    depth where the value is defined. Uses are visited in textual order, so the last one remains.
    """
    depth_of: dict[Value, int] = {}
    last: dict[Value, Node | Block] = {}
    path: list[Node] = []
    stack: list[tuple[Block, Iterator[Node], int]] = [(body, iter(body.nodes), 0)]

    def use(values: Sequence[Value], here: Node | Block, depth: int) -> None:
        for value in values:
            own = depth_of.get(value)
            if own is not None:
                last[value] = here if own == depth else path[own]

    while stack:
        block, nodes, depth = stack[-1]
        node = next(nodes, None)
        if node is None:
            use(block.returns, block, depth)
            stack.pop()
            continue
        path[depth:] = [node]
        use(node.inputs, node, depth)
        for value in node.outputs:
            depth_of[value], last[value] = depth, node
        for inner in node.blocks:
            depth_of.update(dict.fromkeys(inner.params, depth + 1))
        stack.extend((inner, iter(inner.nodes), depth + 1) for inner in reversed(node.blocks))
    ends = ((end, value) for value, end in last.items() if end is not body)
    return grouped((end, value) for end, value in ends if not (isinstance(end, Block) and value in end.params))
