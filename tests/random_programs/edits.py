"""Random edit scripts on random programs: records as passes leave them, each of one kind of edit or of several."""

import random
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

from irscope.ir import NOT_CONSTANT, TENSOR, Block, Graph, ListType, Merged, Node, Rewriter, TensorType, Value, constant_of, new_id
from irscope.ir.invariants import verify
from irscope.transforms.base import PassRecord


def random_record(graph: Graph, rng: random.Random, kinds: tuple[str, ...] = ()) -> tuple[str, PassRecord]:
    """One to three edits of one kind, or a merge or split of one group; the graph itself where nothing fits."""
    kind = rng.choice(kinds or tuple(EDITS))
    rewriter = Rewriter(graph)
    EDITS[kind](graph, rewriter, rng)
    after = rewriter.finish()
    verify(after)
    return kind, PassRecord(kind, graph, after, rewriter.edits)


def visible(graph: Graph, node: Node) -> list[Value]:
    """The tensors that may be read just before a node."""
    found: list[Value] = []
    block: Block | None = graph.block_of[node]
    here = node
    while block is not None:
        for other in block.nodes:
            if other is here:
                break
            found.extend(other.outputs)
        found.extend(block.params)
        owner = graph.owner.get(block)
        if owner is None or is_group(owner):
            break
        here, block = owner, graph.block_of[owner]
    return [value for value in found if isinstance(value.type, TensorType)]


def is_group(node: Node) -> bool:
    return node.op == "prim::FusionGroup"


def tensor(name: str) -> Value:
    return Value(new_id(), TENSOR, name)


def insert(graph: Graph, rewriter: Rewriter, rng: random.Random) -> None:
    """New nodes: fresh results, views, writes, lists; each may read what was inserted before it."""
    made: list[Value] = []
    anchor = rng.choice([node for node in graph.nodes() if node.op != "prim::Constant"] or [graph.body.nodes[-1]])
    for _ in range(rng.randint(1, 3)):
        values = [*visible(graph, anchor), *made]
        if not values:
            return
        a, b = rng.choice(values), rng.choice(values)
        if rng.random() < 0.2:
            box = Value(new_id(), ListType(TENSOR), "l")
            rewriter.insert_before(anchor, Node(new_id(), "prim::ListConstruct", (a, b), (box,)), reason="a list")
            continue
        op, inputs = rng.choice(
            [("aten::neg", (a,)), ("aten::mul", (a, b)), ("aten::t", (a,)), ("aten::relu_", (a,)), ("aten::alias", (a,))]
        )
        out = tensor("new")
        rewriter.insert_before(anchor, Node(new_id(), op, inputs, (out,)), reason="new")
        made.append(out)


def erase_dead(graph: Graph, rewriter: Rewriter, rng: random.Random) -> None:
    """Nodes without users, writes and all."""
    dead = [n for n in graph.nodes() if not n.blocks and not any(value in graph.users for value in n.outputs)]
    for node in rng.sample(dead, min(len(dead), rng.randint(1, 3))):
        rewriter.erase(node, reason="nobody reads it")


def forward(graph: Graph, rewriter: Rewriter, rng: random.Random) -> None:
    """Readers of a value read another, which is visible where it is made; the old node stays or goes."""
    nodes = [n for n in graph.nodes() if len(n.outputs) == 1 and isinstance(n.outputs[0].type, TensorType)]
    for node in rng.sample(nodes, min(len(nodes), rng.randint(1, 2))):
        values = [value for value in visible(graph, node) if rewriter.resolve(value) is not rewriter.resolve(node.output)]
        if not values:
            continue
        rewriter.replace(node.output, rng.choice(values), reason="the same")
        if not node.blocks and rng.random() < 0.6:
            rewriter.erase(node, reason="replaced")


def exchange(graph: Graph, rewriter: Rewriter, rng: random.Random) -> None:
    """Another node makes the same value, or makes one that takes its place."""
    nodes = [n for n in graph.nodes() if len(n.outputs) == 1 and not n.blocks and n.output.type == TENSOR]
    if not nodes:
        return
    node = rng.choice(nodes)
    values = visible(graph, node)
    if not values:
        return
    out = node.output if rng.random() < 0.5 else tensor("other")
    op = rng.choice(["aten::neg", "aten::t", "aten::relu_"])
    rewriter.replace_node(node, [Node(new_id(), op, (rng.choice(values),), (out,))], reason="another op")
    if out is not node.output:
        rewriter.replace(node.output, out, reason="another op")


def merge(graph: Graph, rewriter: Rewriter, rng: random.Random) -> None:
    """Neighbours of one block become a group, as fusion makes them: copies inside, the same values outside."""
    blocks = [block for block in graph.blocks() if len(block.nodes) > 1]
    if not blocks:
        return
    block = rng.choice(blocks)
    start = rng.randrange(len(block.nodes) - 1)
    members = [n for n in block.nodes[start : start + rng.randint(2, 4)] if not n.blocks and n.op != "prim::Constant"]
    if len(members) < 2 or list(block.nodes[start : start + len(members)]) != members:
        return
    group = group_of(graph, members)
    rest = [n for n in block.nodes if n not in members]
    rest.insert(start, group)
    edits = [Merged((a, b), group, "neighbours") for a, b in pairwise(members)]
    rewriter.set_nodes(block, rest, edits)


def grow(graph: Graph, rewriter: Rewriter, rng: random.Random) -> None:
    """A group takes in the node before or after it, as fusion does that merges pair by pair."""
    pairs = [
        (block, index)
        for block in graph.blocks()
        for index in range(len(block.nodes) - 1)
        if sum(map(is_group, block.nodes[index : index + 2])) == 1
    ]
    if not pairs:
        return
    block, index = rng.choice(pairs)
    first, second = block.nodes[index : index + 2]
    if any(node.op == "prim::Constant" or (node.blocks and not is_group(node)) for node in (first, second)):
        return
    group = first if is_group(first) else second
    inside = group.blocks[0]
    if len(set(inside.returns)) < len(inside.returns) or set(inside.returns) & set(inside.params):
        return
    members = [*parts_of(group), second] if group is first else [first, *parts_of(group)]
    leaving = [v for n in (first, second) for v in n.outputs if any(u.user not in (first, second) for u in graph.users.get(v, ()))]
    merged = group_of(graph, members, leaving)
    nodes = (*block.nodes[:index], merged, *block.nodes[index + 2 :])
    rewriter.set_nodes(block, nodes, [Merged((first, second), merged, "one more")])


def parts_of(group: Node) -> list[Node]:
    """The nodes of a group, reading and making the values that the group reads and makes."""
    block = group.blocks[0]
    names = {**dict(zip(block.params, group.inputs, strict=True)), **dict(zip(block.returns, group.outputs, strict=True))}
    return [
        replace(n, inputs=tuple(names.get(v, v) for v in n.inputs), outputs=tuple(names.get(v, v) for v in n.outputs)) for n in block.nodes
    ]


def group_of(graph: Graph, members: list[Node], leaving: list[Value] | None = None) -> Node:
    """The group of some neighbours: known numbers are copied into it, all else comes in as parameters."""
    made = {value for node in members for value in node.outputs}
    inside = {value: Value(new_id(), value.type, value.name) for value in made}
    params: dict[Value, Value] = {}
    body: list[Node] = []
    for node in members:
        for value in node.inputs:
            if value in inside:
                continue
            if constant_of(graph, value) is not NOT_CONSTANT:
                inside[value] = Value(new_id(), value.type, value.name)
                body.append(Node(new_id(), "prim::Constant", (), (inside[value],), graph.producer[value].attrs))
            else:
                inside[value] = params[value] = Value(new_id(), value.type, value.name)
        outputs = tuple(inside[v] for v in node.outputs)
        body.append(replace(node, inputs=tuple(inside[v] for v in node.inputs), outputs=outputs))
    order = [value for node in members for value in node.outputs] if leaving is None else []
    leaving = leaving or [v for v in order if any(use.user not in members for use in graph.users.get(v, ()))]
    inner = Block(new_id(), tuple(params.values()), tuple(body), tuple(inside[v] for v in leaving))
    return Node(new_id(), "prim::FusionGroup", tuple(params), tuple(leaving), blocks=(inner,))


def split(graph: Graph, rewriter: Rewriter, rng: random.Random) -> None:
    """A group's nodes take its place: under their inner names, or making the group's results themselves."""
    groups = [node for node in graph.nodes() if is_group(node)]
    if not groups:
        return
    group = rng.choice(groups)
    block = group.blocks[0]
    if rng.random() < 0.5 or len(set(block.returns)) < len(block.returns) or set(block.returns) & set(block.params):
        rewriter.replace_node(group, block.nodes, reason="inlined")
        for param, operand in zip(block.params, group.inputs, strict=True):
            rewriter.replace(param, operand, reason="inlined")
        for value, inner in zip(group.outputs, block.returns, strict=True):
            rewriter.replace(value, inner, reason="inlined")
        return
    rewriter.replace_node(group, parts_of(group), reason="inlined")


def move(graph: Graph, rewriter: Rewriter, rng: random.Random) -> None:
    """A node that reads nothing moves to the front of its block."""
    block = rng.choice(list(graph.blocks()))
    constants = [node for node in block.nodes if not node.inputs and not node.blocks]
    if len(constants) > 1:
        rewriter.move_before(constants[-1], constants[0], reason="to the front")


def several(graph: Graph, rewriter: Rewriter, rng: random.Random) -> None:
    """New nodes or a group, in a pass that also lets values take the place of others."""
    rng.choice([insert, merge])(graph, rewriter, rng)
    gone = {node for edit in rewriter.edits if isinstance(edit, Merged) for node in edit.nodes}
    nodes = [n for n in graph.nodes() if n not in gone and any(value.type == TENSOR for value in n.outputs)]
    for node in rng.sample(nodes, min(len(nodes), 2)):
        old = next(value for value in node.outputs if value.type == TENSOR)
        values = [v for v in visible(graph, node) if rewriter.resolve(v) is not rewriter.resolve(old)]
        values = [v for v in values if graph.producer.get(v) not in gone]
        if values:
            rewriter.replace(old, rng.choice(values), reason="the same")


EDITS: dict[str, Callable[[Graph, Rewriter, random.Random], None]] = {
    "insert": insert, "erase": erase_dead, "replace": forward, "exchange": exchange, "merge": merge, "grow": grow, "split": split,
    "move": move, "several": several,
}  # fmt: skip
