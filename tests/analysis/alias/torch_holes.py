"""A program as torch's alias db reads it: rewritten so that what torch leaves out is left out of it.

Where we say that two names may be one memory and torch denies it, one of us is wrong. If our own analysis denies it too
once it reads the program with torch's omissions, then these omissions are all that torch's "no" rests on. They are:

* a loop's body is taken to run exactly once: what a round leaves behind does not reach the next one, and what goes in
  does not come out when there is no round. Rewritten to a group, whose parameters are its operands one to one;
* ops give back new memory whose schemas say so and lie. Rewritten to an op that makes new memory of anything;
* so does `list += list`, which gives back the list.
"""

from irscope.ir import Block, Graph, ListType, Node, Value, new_id
from irscope.ops.schemas import overlaid_names

LYING = frozenset(name.partition(".")[0] for name in overlaid_names())
FRESH = "prim::MMTreeReduce"
GROUP = "prim::FunctionalGraph"


def as_torch_reads(graph: Graph) -> Graph:
    """The rewritten program; its values are the same objects."""
    return Graph(_block(graph.body), graph.name)


def _block(block: Block) -> Block:
    nodes = [new for node in block.nodes for new in _nodes(node)]
    return Block(new_id(), block.params, tuple(nodes), block.returns)


def _nodes(node: Node) -> list[Node]:
    if node.op == "prim::Loop":
        body = _block(node.blocks[0])
        once = Block(new_id(), body.params, body.nodes, body.returns[1:])
        return [Node(new_id(), GROUP, (node.inputs[0], *node.inputs[2:]), node.outputs, blocks=(once,))]
    if node.op in LYING:
        return [Node(new_id(), FRESH, node.inputs, node.outputs)]
    if node.op == "aten::add_" and isinstance(node.inputs[0].type, ListType):
        written = Value(new_id(), node.output.type)
        return [Node(new_id(), "aten::add", node.inputs, node.outputs), Node(new_id(), node.op, node.inputs, (written,))]
    return [Node(new_id(), node.op, node.inputs, node.outputs, node.attrs, tuple(map(_block, node.blocks)))]
