"""Programs cut into callees, and put together again: what a call means, by construction."""

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from irscope._base.frozen import FrozenDict
from irscope.ir import BOOL, NOT_CONSTANT, Block, Graph, Node, PrimitiveType, Value, constant_of, new_id

FUNCTION = PrimitiveType("Function")


@dataclass(frozen=True)
class Outlined:
    """A program, and the same one with a piece of it in a callee; what is in both is the same object."""

    inlined: Graph
    graph: Graph
    callees: dict[str, Graph]
    call: Node
    piece: tuple[Node, ...]


def function_constant(name: str) -> Node:
    value = Value(new_id(), FUNCTION, name)
    return Node(new_id(), "prim::Constant", (), (value,), FrozenDict(name=name))


def outline(graph: Graph, rng: random.Random, callees: Mapping[str, Graph] | None = None) -> Outlined | None:
    """Put neighbouring nodes of some block into a callee; None where there is nothing to put."""
    blocks = [block for block in graph.blocks() if len(block.nodes) > 1]
    if not blocks:
        return None
    block = rng.choice(blocks)
    start = rng.randrange(len(block.nodes))
    piece = block.nodes[start : start + rng.randint(1, 6)]
    inside = set(nodes_of(piece))
    made = {value for node in inside for value in defined(node)}
    read = dict.fromkeys(v for node in inside for v in (*node.inputs, *(r for b in node.blocks for r in b.returns)))
    numbers = [v for v in read if v not in made and constant_of(graph, v) is not NOT_CONSTANT]
    params = [v for v in read if v not in made and v not in numbers]
    results = [v for node in piece for v in node.outputs if is_used_outside(graph, v, inside, block)]
    name = f"piece{new_id()}"
    fresh: dict[Value, Value] = {}
    body = copied(Block(0, tuple(params), tuple(piece), tuple(results)), fresh, keep=numbers)
    constants = [replace(graph.producer[v], id=new_id(), outputs=(copy(v, fresh),)) for v in numbers]
    body = renamed(Block(body.id, body.params, (*constants, *body.nodes), body.returns), fresh)
    function = function_constant(name)
    call = Node(new_id(), "prim::CallFunction", (function.output, *params), tuple(results))
    nodes = (*block.nodes[:start], function, call, *block.nodes[start + len(piece) :])
    outer = replaced(graph, block, Block(block.id, block.params, nodes, block.returns))
    return Outlined(graph, outer, {**(callees or {}), name: Graph(body, name)}, call, tuple(piece))


def call_twice(program: Graph, rng: random.Random) -> tuple[Graph, Graph, dict[str, Graph]]:
    """A program that calls another twice, the second time with other operands; and the same one without calls."""
    inputs = tuple(Value(new_id(), value.type, f"in{i}") for i, value in enumerate(program.inputs))
    nodes: list[Node] = []
    plain: list[Node] = []
    known = list(inputs)
    results: list[Value] = []
    for index in range(2):
        given = [rng.choice([v for v in known if v.type == want.type]) for want in program.inputs]
        given = list(inputs) if index == 0 else given
        out = [Value(new_id(), value.type, f"out{index}_{i}") for i, value in enumerate(program.outputs)]
        function = function_constant("program")
        nodes += [function, Node(new_id(), "prim::CallFunction", (function.output, *given), tuple(out))]
        inside = dict(zip(program.inputs, given, strict=True))
        body = copied(Block(0, (), program.body.nodes, program.outputs), inside)
        plain += body.nodes
        passed = zip(body.returns, out, strict=True)
        plain += [Node(new_id(), "prim::unchecked_cast", (value,), (name,)) for value, name in passed]
        known += out
        results += out
    made = [Graph(Block(new_id(), inputs, tuple(body), tuple(results))) for body in (nodes, plain)]
    return made[0], made[1], {"program": program}


def call_itself(program: Graph, rng: random.Random, depth: int) -> tuple[Graph, Graph, dict[str, Graph]]:
    """A program that calls one that calls itself, and one that does the same for so many rounds without calls."""
    inputs = tuple(Value(new_id(), value.type, f"in{i}") for i, value in enumerate(program.inputs))
    again = Value(new_id(), BOOL, "again")
    local = [v for node in program.body.nodes for v in node.outputs]
    seen = [*program.inputs, *local]
    passed = [rng.choice([v for v in seen if v.type == want.type]) for want in program.inputs]
    ended = [rng.choice([v for v in seen if v.type == want.type]) for want in program.inputs]
    more = Value(new_id(), BOOL, "more")
    function = function_constant("circle")
    given = [Value(new_id(), value.type, "given") for value in passed]
    inner = Block(
        new_id(), (), (function, Node(new_id(), "prim::CallFunction", (function.output, more, *passed), tuple(given))),
        tuple(given),
    )  # fmt: skip
    results = tuple(Value(new_id(), value.type, "result") for value in given)
    choice = Node(new_id(), "prim::If", (more,), results, blocks=(inner, Block(new_id(), (), (), tuple(ended))))
    body = Block(new_id(), (more, *program.inputs), (*program.body.nodes, choice), results)
    circle = Graph(body, "circle")
    start = function_constant("circle")
    out = tuple(Value(new_id(), value.type, f"out{i}") for i, value in enumerate(given))
    call = Node(new_id(), "prim::CallFunction", (start.output, again, *inputs), out)
    calling = Graph(Block(new_id(), (again, *inputs), (start, call), out))
    nodes, returns = unrolled(program, passed, ended, again, list(inputs), depth)
    casts = [Node(new_id(), "prim::unchecked_cast", (a,), (b,)) for a, b in zip(returns, out, strict=True)]
    return calling, Graph(Block(new_id(), (again, *inputs), (*nodes, *casts), out)), {"circle": circle}


def unrolled(
    program: Graph, passed: list[Value], ended: list[Value], again: Value, given: list[Value], depth: int
) -> tuple[list[Node], list[Value]]:
    inside = dict(zip(program.inputs, given, strict=True))
    nodes = list(copied(Block(0, (), program.body.nodes, ()), inside).nodes)
    end = [inside[value] for value in ended]
    if depth == 0:
        return nodes, end
    further, returns = unrolled(program, passed, ended, again, [inside[value] for value in passed], depth - 1)
    results = [Value(new_id(), value.type, "result") for value in end]
    blocks = (Block(new_id(), (), tuple(further), tuple(returns)), Block(new_id(), (), (), tuple(end)))
    return [*nodes, Node(new_id(), "prim::If", (again,), tuple(results), blocks=blocks)], results


def nodes_of(piece: Iterable[Node]) -> list[Node]:
    found = list(piece)
    for node in found:
        found.extend(inner for block in node.blocks for inner in block.nodes)
    return found


def defined(node: Node) -> list[Value]:
    return [*node.outputs, *(param for block in node.blocks for param in block.params)]


def is_used_outside(graph: Graph, value: Value, inside: set[Node], block: Block) -> bool:
    blocks = {inner for node in inside for inner in node.blocks}
    return any(use.user not in inside and use.user not in blocks for use in graph.users.get(value, ()))


def copy(value: Value, fresh: dict[Value, Value]) -> Value:
    return fresh.setdefault(value, Value(new_id(), value.type, value.name))


def copied(block: Block, fresh: dict[Value, Value], keep: Iterable[Value] = ()) -> Block:
    """The block with new values and nodes for all that it defines; `fresh` says what became what."""
    for value in keep:
        copy(value, fresh)
    params = tuple(copy(value, fresh) for value in block.params)
    nodes = []
    for node in block.nodes:
        blocks = tuple(copied(inner, fresh) for inner in node.blocks)
        inputs = tuple(fresh.get(value, value) for value in node.inputs)
        outputs = tuple(copy(value, fresh) for value in node.outputs)
        nodes.append(replace(node, id=new_id(), inputs=inputs, outputs=outputs, blocks=blocks))
    return Block(new_id(), params, tuple(nodes), tuple(fresh.get(value, value) for value in block.returns))


def renamed(block: Block, fresh: Mapping[Value, Value]) -> Block:
    nodes = tuple(
        replace(
            node,
            inputs=tuple(fresh.get(value, value) for value in node.inputs),
            blocks=tuple(renamed(inner, fresh) for inner in node.blocks),
        )
        for node in block.nodes
    )
    return Block(block.id, block.params, nodes, tuple(fresh.get(value, value) for value in block.returns))


def replaced(graph: Graph, old: Block, new: Block) -> Graph:
    def rebuilt(block: Block) -> Block:
        if block is old:
            return new
        nodes = tuple(replace(n, blocks=tuple(map(rebuilt, n.blocks))) if n.blocks else n for n in block.nodes)
        return Block(block.id, block.params, nodes, block.returns)

    return Graph(rebuilt(graph.body), graph.name)
