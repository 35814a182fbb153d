"""Decides which loops machine code can run: those whose turns are kernels, views, linear numbers, rows that are written in place or
read by index, and branches and loops of these.

What the types of a run's operands decide stands in `irscope.runtime.program.loops.layouts`.
"""

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from math import lcm
from operator import itemgetter
from typing import Final

from irscope.analysis.loop_rows import ROWS, is_view
from irscope.frontends.emit import MOST_CIRCLE
from irscope.ir import BOOL, FLOAT, INT, NOT_CONSTANT, NUMBER, Block, Graph, Node, TensorType, Value, constant_of, nest_of
from irscope.ops.registry import op_of

_MOST_VIEWS: Final = 64
"""Views of one body: each is looked up through those that it is a view of."""
_MOST_NODES: Final = 2000
_DEEPEST: Final = 8
"""Branches and loops inside each other: the words of a loop are looked at twice for each loop around it."""
_NUMBERS: Final = (BOOL, FLOAT, INT, NUMBER)
_MOST_DELAY: Final = 4
"""Turns that a carried value may be handed on for before it is read."""
_SUMS: Final = ("aten::add", "aten::sub", "aten::mul", "aten::__derive_index")
_TESTS: Final = ("aten::eq", "aten::ne", "aten::lt", "aten::le", "aten::gt", "aten::ge")
_CIRCLES: Final = ("aten::remainder", "aten::floordiv")
"""Ops on a number and a constant after whose many turns the results repeat, or are larger by the same."""
PUT: Final = "aten::index_copy"
"""The op that returns a tensor with other rows where indices say so."""
TAKE: Final = "aten::index_select"
WRITES: Final = frozenset({*ROWS, PUT})
JOINS: Final = ("aten::cat", "aten::stack")
"""Ops that copy tensors of a list into one."""
_LATE: Final = ("aten::Bool", "prim::ListConstruct")
"""Ops whose operands are read where their results are."""
_NEW: Final = ("aten::zeros", "aten::ones", "aten::full", "aten::empty", "aten::clone")


@dataclass(eq=False)
class LoopForm:
    """A loop whose turns are only kernels, without the types of its operands."""

    node: Node
    steps: tuple[Node, ...]
    """What a turn does, in branches and inner loops too, without constants and tests of flags."""
    groups: tuple[Node, ...]
    captured: tuple[Value, ...]
    """What the body reads from outside."""
    flag: Value | None
    """The tensor of one element that says whether there is a next turn; None where the bound alone does."""
    flags: Mapping[Value, Value]
    """For each condition of a branch or an inner loop, the tensor of one element that it is."""
    period: int
    """Turns after which all numbers repeat, or have grown by the same."""
    delay: int
    """The most turns between writing a value and the last turn that reads it."""
    shared: frozenset[Value]
    """Results of kernels that the next turns read."""
    owned: Mapping[Value, Value]
    """For each result of an op that writes a row, the parameter whose memory it writes."""
    parts: Mapping[Node, Node]
    """For each op that writes back a part of which a part was written, the op that wrote that."""
    unused: frozenset[Value]
    """Results of the loop that nothing reads."""
    read: frozenset[Value]
    """Results of inner loops that something reads."""
    fresh: frozenset[Value]
    """Parameters that start as tensors made for this loop alone, whose memory it may write."""
    declined: str = ""
    """Why Python ran it turn by turn, on the operands that it was last prepared for."""

    @property
    def least(self) -> int:
        """Turns from which the loop runs in machine code: those in which it settles are looked at twice."""
        return self.delay + 2 * self.circle

    @property
    def circle(self) -> int:
        """Turns that are laid out one by one and repeated."""
        return lcm(self.delay + 1, self.period)

    @property
    def body(self) -> Block:
        return self.node.blocks[0]

    @property
    def owner(self) -> Node:
        """The node that the time of the loop counts for: its only group, or the loop."""
        return self.groups[0] if len(self.groups) == 1 else self.node

    @property
    def may_fail(self) -> bool:
        """Whether machine code may find in a turn that Python must say what is wrong."""
        return any(node.op in (TAKE, PUT, "prim::Loop") for node in self.steps)


def loop_form(graph: Graph, loop: Node, fused: Container[Node]) -> LoopForm | str:
    """Returns the form of a loop, or why its turns are not only kernels; an empty text where none of `fused` is in its body."""
    (body,) = loop.blocks
    nest = [node for node in islice(nest_of(body), _MOST_NODES + 1) if node.op != "prim::Constant"]
    if not any(node in fused for node in nest):
        return ""
    if len(nest) > _MOST_NODES or _depth(nest, body) > _DEEPEST:
        return f"its body has more than {_MOST_NODES} ops, or loops and branches more than {_DEEPEST} deep"
    blocks = [body, *(block for node in nest if node.op in ("prim::If", "prim::Loop") for block in node.blocks)]
    inside = {value for block in blocks for node in block.nodes for value in node.outputs}.union(*[block.params for block in blocks])
    asked = [node for node in nest if node.op == "aten::Bool" and isinstance(node.inputs[0].type, TensorType)]
    flags = {node.output: node.inputs[0] for node in asked}
    steps = tuple(node for node in nest if node not in asked)
    made = {value for node in steps if node in fused or _makes(node) for value in node.outputs}
    kept = list[tuple[bool, str]]()
    for node in steps:
        is_moved = is_view(node) or node.op in ROWS or node.op in (TAKE, PUT) or _is_joined(graph, node, inside)
        if not (node in fused or is_moved or is_tensor_of_number(node) or _is_sum(graph, node, inside)):
            why = _why_no_control(graph, node, flags, made) if node.op in ("prim::If", "prim::Loop") else "of its body has no kernel"
            if why:
                kept.append((_may_be_kernel(node), f"{node.op} {why}"))
    if kept:
        return min(kept, key=itemgetter(0))[1]  # others are in no kernel because of this one
    why = _why_no_flag(graph, body, flags, made) or next((why for node in asked if (why := _why_no_test(graph, node))), "")
    if why:
        return why
    if sum(map(is_view, steps)) > _MOST_VIEWS:
        return f"its body has more than {_MOST_VIEWS} views"
    period = _period(graph, steps, body, inside)
    if isinstance(period, str):
        return period
    parts = {node: part for node in steps if node.op in ROWS and (part := _part_of(graph, node)) is not None}
    whole = [node for node in steps if node.op in WRITES and node not in parts.values()]
    owned = {node.output: _written(graph, node, inside) for node in whole}
    delay = _delay(graph, body, inside)
    if isinstance(delay, str):
        return delay
    for node in whole:
        if why := _why_not_in_place(graph, graph.block_of[node], node, owned, inside):
            return why
    read = [value for node in nest for value in node.inputs] + [value for block in blocks for value in block.returns[block is body :]]
    captured = tuple(dict.fromkeys(value for value in read if value not in inside))
    given = (*captured, *body.params[1:])
    rest = [value for value in given if not isinstance(value.type, TensorType) and value.type not in _NUMBERS]
    if any(constant_of(graph, value) is NOT_CONSTANT for value in rest):
        return "it reads lists or objects, whose contents may be others at each run"
    unused = frozenset(value for value in loop.outputs if not graph.users.get(value))
    starts = zip(body.params[1:], loop.inputs[2:], strict=True)
    fresh = frozenset(param for param, start in starts if _is_made_for(graph, start, loop))
    used = frozenset(value for node in nest if node.op == "prim::Loop" for value in node.outputs if graph.users.get(value))
    flag = flags.get(body.returns[0])
    own = tuple(node for node in steps if node in fused)
    shared = _looked_back_at(body, made)
    made_form = LoopForm(loop, steps, own, captured, flag, flags, period, delay, shared, owned, parts, unused, used, fresh)
    return replace(made_form, fresh=frozenset()) if made_form.may_fail else made_form  # Python begins anew


def _may_be_kernel(node: Node) -> bool:
    """Checks for an op that a kernel computes, or that only makes a list for one that none does."""
    op = op_of(node)
    return node.op == "prim::ListConstruct" or (op is not None and op.expression is not None)


def _depth(nest: Sequence[Node], body: Block) -> int:
    """Returns how deep branches and loops are inside each other; a loop counts for two."""
    depths = dict.fromkeys(body.nodes, 0)
    for node in nest:
        if node.op in ("prim::If", "prim::Loop"):
            deeper = depths[node] + (2 if node.op == "prim::Loop" else 1)
            depths.update({each: deeper for block in node.blocks for each in block.nodes})
    return max(depths.values())


def _makes(node: Node) -> bool:
    """Checks for an op other than a kernel that has memory of its own for its result."""
    return node.op in (*JOINS, TAKE, "prim::If", "prim::Loop") or is_tensor_of_number(node)


def _why_no_flag(graph: Graph, body: Block, flags: Mapping[Value, Value], made: Container[Value]) -> str:
    """Returns why machine code cannot ask whether there is a next turn; empty where it can, or there always is."""
    asked = body.returns[0]
    if constant_of(graph, asked) is True:
        return ""
    if asked not in flags or graph.block_of[graph.producer[asked]] is not body:
        return "its condition is computed by Python"
    if len(graph.users.get(asked, ())) != 1:
        return "its condition is used for more than the loop"
    return "" if flags[asked] in made else "its condition is not written by a kernel"


def _why_no_test(graph: Graph, node: Node) -> str:
    """Returns why a test of a flag is not only one of a branch or loop; empty where it is."""
    for use in graph.users.get(node.output, ()):
        if isinstance(use.user, Block):
            owner, returns = graph.owner.get(use.user), use.user.returns
            if owner is None or owner.op != "prim::Loop" or returns[0] is not node.output or returns.count(node.output) > 1:
                return "a condition of its body is used by Python"
        elif (use.user.op, use.user.inputs.index(node.output)) not in (("prim::If", 0), ("prim::Loop", 1)):
            return "aten::Bool of its body has no kernel"
    return ""


def _why_no_control(graph: Graph, node: Node, flags: Mapping[Value, Value], made: Container[Value]) -> str:
    """Returns why a branch or loop of a body cannot be part of its turn; empty where it can."""
    asked = node.inputs[0 if node.op == "prim::If" else 1]
    if asked not in flags and asked.type != BOOL:
        return "of its body asks for a number of Python"
    results = [value for value in node.outputs if node.op == "prim::If" or graph.users.get(value)]
    if not all(isinstance(value.type, TensorType) for value in results):
        return "of its body has results that are no tensors"
    if node.op == "prim::If":
        return ""
    (body,) = node.blocks
    if why := _why_no_flag(graph, body, flags, made):
        return f"of its body: {why}"
    for param, after in zip(body.params[1:], body.returns[1:], strict=True):
        step = graph.producer.get(after)
        if isinstance(param.type, TensorType):
            continue
        if param.type != INT or step is None or step.op != "aten::add" or param not in step.inputs:
            return "of its body carries what is no tensor"
        if not all(value is param or constant_of(graph, value) is not NOT_CONSTANT for value in step.inputs):
            return "of its body carries a number that is not counted in equal steps"
    return ""


def _part_of(graph: Graph, node: Node) -> Node | None:
    """Returns the op that wrote a part of a part that this op writes back where it was; None for any other op."""
    part, (whole, row, *places) = graph.producer.get(node.inputs[1]), node.inputs
    if part is None or part.op not in ROWS or len(graph.users.get(row, ())) != 1 or graph.block_of[part] is not graph.block_of[node]:
        return None
    cut = graph.producer.get(part.inputs[0])
    if cut is None or cut.op != ROWS[node.op] or cut.inputs[0] is not whole or len(cut.inputs) != 1 + len(places):
        return None
    pairs = zip(cut.inputs[1:], places, strict=True)
    known = [one is other or _is_same_constant(graph, one, other) for one, other in pairs]
    return part if all(known) else None


def _is_same_constant(graph: Graph, one: Value, other: Value) -> bool:
    number = constant_of(graph, one)
    return number is not NOT_CONSTANT and number == constant_of(graph, other)


def _is_made_for(graph: Graph, value: Value, loop: Node) -> bool:
    """Checks if a tensor is made anew each time that a loop starts, and for nobody else."""
    made = graph.producer.get(value)
    is_new = made is not None and made.op in _NEW and graph.block_of[made] is graph.block_of[loop]
    return is_new and len(graph.users.get(value, ())) == 1


def _is_joined(graph: Graph, node: Node, inside: set[Value]) -> bool:
    """Checks for an op that joins a list made in this turn, along an axis that is constant, and for the list if that is all it is for."""
    if node.op in JOINS:
        made = graph.producer.get(node.inputs[0])
        is_own = made is not None and made.op == "prim::ListConstruct" and made.outputs[0] in inside
        return is_own and constant_of(graph, node.inputs[1]) is not NOT_CONSTANT
    users = graph.users.get(node.outputs[0], ()) if node.op == "prim::ListConstruct" else ()
    return bool(users) and all(isinstance(use.user, Node) and use.user.op in JOINS and use.user.outputs[0] in inside for use in users)


def is_tensor_of_number(node: Node) -> bool:
    """Checks for a whole number that becomes a tensor."""
    is_long = node.op == "aten::tensor" and isinstance(node.output.type, TensorType) and node.output.type.dtype == "int64"
    return (node.op == "prim::NumToTensor" or is_long) and node.inputs[0].type == INT


def _is_sum(graph: Graph, node: Node, inside: set[Value]) -> bool:
    """Checks for a sum or product of whole numbers that is linear in the number of the turn."""
    if any(value.type != INT for value in node.inputs) or len(node.outputs) != 1:
        return False
    if node.op in _TESTS and node.output.type == BOOL:
        return True  # of numbers that repeat: `_period`
    varying = [value for value in node.inputs if value in inside and constant_of(graph, value) is NOT_CONSTANT]
    if node.op in _CIRCLES:
        return type(constant_of(graph, node.inputs[1])) is int
    return (
        node.op in _SUMS
        and node.output.type == INT
        and (node.op != "aten::mul" or len(varying) < 2)
        and (node.op != "aten::__derive_index" or node.inputs[2] not in varying or len(varying) < 2)
    )


def _period(graph: Graph, steps: Sequence[Node], body: Block, inside: set[Value]) -> int | str:
    """Returns the turns after which numbers repeat, or have grown by the same; or why there are none, or too many.

    A number is linear in the number of the turn, or made of such ones. If `v` grows by `s` in `p` turns, then in `p * m` turns
    `v % m` repeats, and `v // m` grows by `s`. A test must be of numbers that repeat, so that it does, too."""
    outer = {*body.params, *(value for node in body.nodes for value in node.outputs)}
    counters = {value for value in inside if value.type == INT and graph.producer.get(value) is None}
    periods: dict[Value, int] = {}
    growing, inner = set(counters), counters - outer
    for node in steps:
        if not _is_sum(graph, node, inside):
            continue
        period = lcm(*[periods.get(value, 1) for value in node.inputs])
        if not inner.isdisjoint(node.inputs):
            inner.add(node.output)
        if node.op in (*_CIRCLES, *_TESTS) and node.output in inner:
            return f"{node.op} of its body counts the turns of an inner loop"
        if node.op in _TESTS and not growing.isdisjoint(node.inputs):
            return f"{node.op} of its body tests a number that grows from turn to turn"
        if node.op in _CIRCLES:
            divisor = constant_of(graph, node.inputs[1])
            if not 0 < divisor <= MOST_CIRCLE:
                return f"{node.op} of its body divides by {divisor}"
            period *= divisor
        if node.op != "aten::remainder" and not growing.isdisjoint(node.inputs):
            growing.add(node.output)
        if period > MOST_CIRCLE:
            return f"its numbers repeat after more than {MOST_CIRCLE} turns"
        periods[node.output] = period
    whole = lcm(1, *periods.values())
    return whole if whole <= MOST_CIRCLE else f"its numbers repeat after more than {MOST_CIRCLE} turns"


def _delay(graph: Graph, body: Block, inside: set[Value]) -> int | str:
    """Returns how many turns pass at most until a value that a turn returns is read for the last time; or why that is not known."""
    place = {value: index for index, value in enumerate(body.params)}
    longest = 1
    for index, param in enumerate(body.params[1:], 1):
        after = body.returns[index]
        if after is param:
            continue
        if param.type == INT:
            step = graph.producer.get(after)
            if step is None or step.op != "aten::add" or param not in step.inputs or not _is_steady(graph, step, param, inside):
                return "a number that it carries is not counted in equal steps"
            continue
        if not isinstance(param.type, TensorType):
            return f"it carries {param.type}, which no kernel writes"
        source, turns = _viewed(graph, after, inside), 1
        while source in place and body.returns[place[source]] is not source:
            if source.type == INT or turns > _MOST_DELAY:
                return "it hands on what it carries for many turns"
            source, turns = _viewed(graph, body.returns[place[source]], inside), turns + 1
        longest = max(longest, turns)
    return longest


def _viewed(graph: Graph, value: Value, inside: set[Value]) -> Value:
    """Returns what a value of the body is a view of, itself if it is none."""
    while value in inside and (made := graph.producer.get(value)) is not None and is_view(made):
        value = made.inputs[0]
    return value


def _is_steady(graph: Graph, step: Node, param: Value, inside: set[Value]) -> bool:
    others = [value for value in step.inputs if value is not param]
    return len(others) == 1 and (others[0] not in inside or constant_of(graph, others[0]) is not NOT_CONSTANT)


def _looked_back_at(body: Block, made: set[Value]) -> frozenset[Value]:
    """Returns the results of kernels that a turn returns, themselves or a view of them."""
    found = set(body.returns)
    for node in reversed(body.nodes):
        if found.intersection(node.outputs) and is_view(node):
            found.update(node.inputs)
    return frozenset(found & made)


def _written(graph: Graph, node: Node, inside: set[Value]) -> Value:
    """Returns what an op that writes a row gets whole, through the rows that the turn has written before."""
    whole = node.inputs[0]
    while whole in inside and (made := graph.producer.get(whole)) is not None and made.op in WRITES:
        whole = made.inputs[0]
    return whole


def _why_not_in_place(graph: Graph, body: Block, row: Node, owned: Mapping[Value, Value], inside: set[Value]) -> str:
    """Returns why an op that writes a row may not write it in place; empty where it may.

    In place, all versions of a carried tensor are the same memory: what it was when the turn began, and after each row. So the last
    version must be what the turn returns in its place, and each earlier one, views of it included, must have its last reader
    before the row that follows it. No other returned value may be a view of any of them: the next turn would see it change."""
    param = owned[row.output]
    if param not in body.params or not isinstance(param.type, TensorType):
        return f"{row.op} of its body copies a tensor that the loop does not carry"
    versions = {param, *(value for value, own in owned.items() if own is param)}
    last = body.returns[body.params.index(param)]
    others = [value for place, value in enumerate(body.returns) if value is not last or body.params[place] is not param]
    if last not in versions - {param} or any(_viewed(graph, value, inside) in versions for value in others):
        return f"{row.op} of its body writes what is also read otherwise afterwards"
    later = body.nodes[body.nodes.index(row) + 1 :]
    read = [value for node in later for value in _read_at(graph, node)]
    if any(_viewed(graph, value, inside) is row.inputs[0] for value in read):
        return f"{row.op} of its body writes what is read again after it"
    if any(node is not row and node.op in WRITES and node.inputs[0] is row.inputs[0] for node in body.nodes):
        return f"{row.op} of its body writes one of two versions of the same tensor"
    return ""


def _read_at(graph: Graph, node: Node) -> Iterator[Value]:
    """Yields what machine code reads where a node stands: lists and tests of flags are looked up there."""
    nodes = [node]
    for each in nodes:  # grows
        yield from each.inputs
        nodes += [made for value in each.inputs if (made := graph.producer.get(value)) is not None and made.op in _LATE]
        for block in each.blocks:
            yield from block.returns
            nodes += block.nodes
            nodes += [made for value in block.returns if (made := graph.producer.get(value)) is not None and made.op in _LATE]
