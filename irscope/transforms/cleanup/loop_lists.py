"""Writes the lists that a loop fills as tables, of which each turn writes a row: machine code appends to no list."""

from typing import NamedTuple

from irscope.analysis.loop_rows import is_functional
from irscope.analysis.per_graph import alias_db_of, shapes_of
from irscope.frontends.emit import CODES
from irscope.ir import Block, Graph, Node, Rewriter, TensorType, Value, constant_of, make_node, make_value, new_id
from irscope.ops.type_rules import contiguous_strides, static_shape
from irscope.transforms.base import PassRecord, starts_at, timed
from irscope.transforms.cleanup.fold import constant_node, with_constants
from irscope.transforms.cleanup.loop_products import is_turn_of_kernels

# `out.append(h)` in a loop and `torch.stack(out)` behind it are also what a scan output of ONNX is. The rows of a table are written in
# place where machine code runs the loop (`irscope.runtime.program.loops`); where Python does, a list is as good.
#
# **When.** The loop runs a known number of turns, at least one, and all else of a turn is work for kernels. The list is empty before the
# loop, in the same block, and of each turn gets one tensor, of known extents and stacked row by row, that no op writes afterwards: the
# table has the elements as they were when they were appended. Behind the loop the list is stacked once, in no other loop, and asked for
# its length. Nothing in the program is in place: Python, if it runs the loop after all, then writes the rows in place, too, instead of
# copying the table.


class _Filled(NamedTuple):
    """A list that a loop fills."""

    made: Node
    append: Node
    row: TensorType
    stack: Node
    axis: int
    lengths: tuple[Node, ...]


@timed
@starts_at("tables-of-lists", {"prim::Loop"})
def tables_of_lists(graph: Graph) -> PassRecord:
    """Write lists that a loop of kernels fills in a known number of turns, and that are stacked behind it, as tables."""
    rewriter = Rewriter(graph)
    loops = [node for node in graph.nodes() if node.op == "prim::Loop"]
    if loops and is_functional(graph.body):
        for loop in loops:
            if found := _filled_by(graph, loop):
                _write(rewriter, loop, found)
    return PassRecord("tables-of-lists", graph, rewriter.finish(), rewriter.edits)


def _filled_by(graph: Graph, loop: Node) -> list[_Filled]:
    """The lists that become tables; none unless a turn is then only kernels."""
    (body,) = loop.blocks
    appends = [node for node in body.nodes if node.op == "aten::append"]
    turns, starts, goes_on = (constant_of(graph, value) for value in (*loop.inputs[:2], body.returns[0]))
    if not appends or type(turns) is not int or turns < 1 or starts is not True or goes_on is not True:
        return []
    if not is_turn_of_kernels(body, besides=appends):
        return []
    found = [_filled(graph, loop, append) for append in appends]
    return [each for each in found if each is not None] if None not in found else []


def _filled(graph: Graph, loop: Node, append: Node) -> _Filled | None:
    held, item = append.inputs
    made, row = graph.producer.get(held), shapes_of(graph).type(item)
    if made is None or made.op != "prim::ListConstruct" or made.inputs or graph.block_of[made] is not graph.block_of[loop]:
        return None
    if not isinstance(row, TensorType) or not row.is_static or row.dtype not in CODES or row.requires_grad:
        return None
    shape = static_shape(row) or ()
    if len(shape) in (4, 5) and row.strides != contiguous_strides(shape):
        return None  # torch stacks images channels last where they are
    users = [use.user for use in graph.users.get(held, ())]
    behind = [user for user in users if user is not append]
    nodes = [user for user in behind if isinstance(user, Node)]
    stacks, lengths = ([node for node in nodes if node.op == op] for op in ("aten::stack", "aten::len"))
    if len(stacks) != 1 or len(stacks) + len(lengths) < len(behind) or graph.users.get(append.outputs[0]):
        return None
    axis = constant_of(graph, stacks[0].inputs[1])
    rank = len(row.shape or ()) + 1
    is_behind = all(graph.position[node] > graph.position[append] and not _is_in_loop(graph, node, loop) for node in nodes)
    if type(axis) is not int or not -rank <= axis < rank or not is_behind or alias_db_of(graph).has_writers(item):
        return None
    return _Filled(made, append, row, stacks[0], axis % rank, tuple(lengths))


def _is_in_loop(graph: Graph, node: Node, loop: Node) -> bool:
    """Whether a node is in a loop that is in the block of this one, or in this one."""
    block: Block | None = graph.block_of[node]
    while block is not None and block is not graph.block_of[loop]:
        owner = graph.owner.get(block)
        if owner is None or owner.op != "prim::If":
            return True
        block = graph.block_of[owner]
    return block is None


def _write(rewriter: Rewriter, loop: Node, lists: list[_Filled]) -> None:
    graph, (body,) = rewriter.graph, loop.blocks
    turns = constant_of(graph, loop.inputs[0])
    nodes, inputs, outputs = list(body.nodes), list(loop.inputs), list(loop.outputs)
    params, returns, before = list(body.params), list(body.returns), list[Node]()
    for one in lists:
        shape = (turns, *(static_shape(one.row) or ()))
        whole = one.row.with_(shape=shape, strides=contiguous_strides(shape))
        start, table, after = (make_value(new_id(), whole, "") for _ in range(3))
        end = one.stack.output if one.axis == 0 else make_value(new_id(), whole, "")
        before += with_constants(loop, "aten::zeros", start, [list(shape), CODES[str(whole.dtype)], None, whole.device, None])
        place = nodes.index(one.append)
        nodes[place : place + 1] = with_constants(one.append, "aten::select_scatter", after, [table, one.append.inputs[1], 0, params[0]])
        for values, value in ((inputs, start), (params, table), (returns, after), (outputs, end)):
            values.append(value)
        _read(rewriter, one, end, turns)
        rewriter.erase(one.made, reason="the loop fills a table instead")
    block = Block(body.id, tuple(params), tuple(nodes), tuple(returns))
    again = make_node(loop.id, loop.op, tuple(inputs), tuple(outputs), loop.attrs, (block,), loop.location, loop.scope)
    rewriter.replace_node(loop, [*before, again], reason=f"the number of its turns is known, {turns}: each writes a row of a table")


def _read(rewriter: Rewriter, one: _Filled, table: Value, turns: int) -> None:
    """Take the rows from the table where the list was stacked or asked for its length."""
    rank = len(one.row.shape or ()) + 1
    for node in one.lengths:
        rewriter.replace_node(node, [constant_node(node.output, turns, like=node)], reason="the number of turns")
    if one.axis == 0:
        rewriter.erase(one.stack, reason="the table has the rows of the list")
        return
    order = [*range(1, one.axis + 1), 0, *range(one.axis + 1, rank)]
    turned = make_value(new_id(), TensorType(one.row.dtype, None, device=one.row.device), "")
    made = with_constants(one.stack, "aten::permute", turned, [table, order])
    made += with_constants(one.stack, "aten::clone", one.stack.output, [turned, 0])
    rewriter.replace_node(one.stack, made, reason="the table has the rows of the list")
