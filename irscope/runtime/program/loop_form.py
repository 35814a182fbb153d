"""Decides which loops machine code can run: those whose turns are kernels, views, linear numbers and rows that are written in place.

What the types of a run's operands decide stands in `irscope.runtime.program.loops`, which runs them.
"""

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Final

from irscope.ir import BOOL, FLOAT, GROUPS, INT, NOT_CONSTANT, NUMBER, Block, Graph, ListType, Node, TensorType, Type, Value, constant_of
from irscope.ops.registry import effect_of
from irscope.ops.traits import ANOTHER_OBJECT, LAYOUT_READERS, VIEWS

_MOST_VIEWS: Final = 64
"""Views of one body: each is looked up through those that it is a view of."""
_NUMBERS: Final = (BOOL, FLOAT, INT, NUMBER)
_MOST_DELAY: Final = 4
"""Turns that a carried value may be handed on for before it is read."""
_SUMS: Final = ("aten::add", "aten::sub", "aten::mul")
ROWS: Final = {"aten::select_scatter": "aten::select", "aten::slice_scatter": "aten::slice"}
"""Ops that return a tensor with other elements in a part, and the view that is this part."""
JOINS: Final = ("aten::cat", "aten::stack")
"""Ops that copy tensors of a list into one."""
_NEW: Final = ("aten::zeros", "aten::ones", "aten::full", "aten::empty", "aten::clone")


@dataclass(eq=False)
class LoopForm:
    """A loop whose turns are only kernels, without the types of its operands."""

    node: Node
    steps: tuple[Node, ...]
    """What a turn does, without constants and the test of its flag."""
    groups: tuple[Node, ...]
    captured: tuple[Value, ...]
    """What the body reads from outside."""
    flag: Value | None
    """The tensor of one element that says whether there is a next turn; None where the bound alone does."""
    delay: int
    """The most turns between writing a value and the last turn that reads it."""
    shared: frozenset[Value]
    """Results of kernels that the next turns read."""
    owned: Mapping[Value, Value]
    """For each result of an op that writes a row, the parameter whose memory it writes."""
    unused: frozenset[Value]
    """Results of the loop that nothing reads."""
    fresh: frozenset[Value]
    """Parameters that start as tensors made for this loop alone, whose memory it may write."""
    declined: str = ""
    """Why Python ran it turn by turn, on the operands that it was last prepared for."""

    @property
    def least(self) -> int:
        """Turns from which the loop runs in machine code: those in which it settles are looked at twice."""
        return self.delay + 2 * (self.delay + 1)

    @property
    def body(self) -> Block:
        """The block of a turn."""
        return self.node.blocks[0]

    @property
    def owner(self) -> Node:
        """The node that the time of the loop counts for: its only group, or the loop."""
        return self.groups[0] if len(self.groups) == 1 else self.node


def loop_form(graph: Graph, loop: Node, fused: Container[Node]) -> LoopForm | str:
    """Returns the form of a loop, or why its turns are not only kernels; an empty text where none of `fused` is in its body."""
    (body,) = loop.blocks
    inside = {value for node in body.nodes for value in node.outputs}.union(body.params)
    flagged = body.returns[0]
    asked: Node | None = None
    if constant_of(graph, flagged) is not True:
        asked = graph.producer.get(flagged)
        if asked is None or asked not in body.nodes or asked.op != "aten::Bool":
            return "its condition is computed by Python"
        if len(graph.users.get(flagged, ())) != 1:
            return "its condition is used for more than the loop"
    nodes = [node for node in body.nodes if node.op != "prim::Constant" and node is not asked]
    if not any(node in fused for node in nodes):
        return ""
    steps = tuple(nodes)
    for node in steps:
        is_moved = _is_view(node) or node.op in ROWS or _is_joined(graph, node, inside)
        if not (node in fused or is_moved or is_tensor_of_number(node) or _is_sum(graph, node, inside)):
            return f"{node.op} {'has blocks' if node.blocks else 'of its body has no kernel'}"
    own = tuple(node for node in steps if node in fused)
    if sum(map(_is_view, steps)) > _MOST_VIEWS:
        return f"its body has more than {_MOST_VIEWS} views"
    made = {value for node in steps if node in fused or node.op in JOINS or is_tensor_of_number(node) for value in node.outputs}
    flag = None if asked is None else asked.inputs[0]
    if flag is not None and flag not in made:
        return "its condition is not written by a kernel"
    owned = {node.output: _written(graph, node, inside) for node in steps if node.op in ROWS}
    delay = _delay(graph, body, inside)
    if isinstance(delay, str):
        return delay
    for node in steps:
        if why := _why_not_in_place(graph, body, node, owned, inside):
            return why
    read = [value for node in steps for value in node.inputs] + list(body.returns[1:])
    captured = tuple(dict.fromkeys(value for value in read if value not in inside))
    given = (*captured, *body.params[1:])
    rest = [value for value in given if not isinstance(value.type, TensorType) and value.type not in _NUMBERS]
    if any(constant_of(graph, value) is NOT_CONSTANT for value in rest):
        return "it reads lists or objects, whose contents may be others at each run"
    unused = frozenset(value for value in loop.outputs if not graph.users.get(value))
    starts = zip(body.params[1:], loop.inputs[2:], strict=True)
    fresh = frozenset(param for param, start in starts if _is_made_for(graph, start, loop))
    return LoopForm(loop, steps, own, captured, flag, delay, _looked_back_at(body, steps, made), owned, unused, fresh)


def _is_made_for(graph: Graph, value: Value, loop: Node) -> bool:
    """Checks if a tensor is made anew each time that a loop starts, and for nobody else."""
    made = graph.producer.get(value)
    is_new = made is not None and made.op in _NEW and graph.block_of[made] is graph.block_of[loop]
    return is_new and len(graph.users.get(value, ())) == 1


def _is_view(node: Node) -> bool:
    """Checks for a view, one that returns several tensors in a list, and an op that takes them from the list; not for `as_strided`,
    which counts from the start of the storage."""
    if node.op in ("aten::__getitem__", "prim::ListUnpack"):
        return _has_tensors(node.inputs[0].type)
    return node.op in VIEWS - LAYOUT_READERS and len(node.outputs) == 1 and _has_tensors(node.output.type) and not node.blocks


def _has_tensors(type: Type) -> bool:
    return isinstance(type, TensorType) or (isinstance(type, ListType) and isinstance(type.element, TensorType))


def _is_joined(graph: Graph, node: Node, inside: set[Value]) -> bool:
    """Checks for an op that joins a list made in this turn, along an axis that is constant, and for the list if that is all it is for."""
    if node.op in JOINS:
        made = graph.producer.get(node.inputs[0])
        is_own = made is not None and made.op == "prim::ListConstruct" and made.outputs[0] in inside
        return is_own and constant_of(graph, node.inputs[1]) is not NOT_CONSTANT
    users = graph.users.get(node.outputs[0], ()) if node.op == "prim::ListConstruct" else ()
    return bool(users) and all(isinstance(use.user, Node) and use.user.op in JOINS and use.user.outputs[0] in inside for use in users)


def is_tensor_of_number(node: Node) -> bool:
    return node.op == "prim::NumToTensor" and node.inputs[0].type == INT


def _is_sum(graph: Graph, node: Node, inside: set[Value]) -> bool:
    """Checks for a sum or product of whole numbers that is linear in the number of the turn."""
    if node.op not in _SUMS or any(value.type != INT for value in (*node.inputs, *node.outputs)):
        return False
    varying = [value for value in node.inputs if value in inside and constant_of(graph, value) is NOT_CONSTANT]
    return node.op != "aten::mul" or len(varying) < 2


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
    while value in inside and (made := graph.producer.get(value)) is not None and _is_view(made):
        value = made.inputs[0]
    return value


def _is_steady(graph: Graph, step: Node, param: Value, inside: set[Value]) -> bool:
    others = [value for value in step.inputs if value is not param]
    return len(others) == 1 and (others[0] not in inside or constant_of(graph, others[0]) is not NOT_CONSTANT)


def _looked_back_at(body: Block, steps: Sequence[Node], made: set[Value]) -> frozenset[Value]:
    """Returns the results of kernels that a turn returns, themselves or a view of them."""
    found = set(body.returns)
    for node in reversed(steps):
        if found.intersection(node.outputs) and _is_view(node):
            found.update(node.inputs)
    return frozenset(found & made)


def _written(graph: Graph, node: Node, inside: set[Value]) -> Value:
    """Returns what an op that writes a row gets whole, through the rows that the turn has written before."""
    whole = node.inputs[0]
    while whole in inside and (made := graph.producer.get(whole)) is not None and made.op in ROWS:
        whole = made.inputs[0]
    return whole


def _why_not_in_place(graph: Graph, body: Block, row: Node, owned: Mapping[Value, Value], inside: set[Value]) -> str:
    """Returns why an op that writes a row may not write it in place; empty where it may.

    In place, all versions of a carried tensor are the same memory: what it was when the turn began, and after each row. So the last
    version must be what the turn returns in its place, and each earlier one, views of it included, must have its last reader
    before the row that follows it. No other returned value may be a view of any of them: the next turn would see it change."""
    if row.op not in ROWS:
        return ""
    param = owned[row.output]
    if param not in body.params or not isinstance(param.type, TensorType):
        return f"{row.op} of its body copies a tensor that the loop does not carry"
    versions = {param, *(value for value, own in owned.items() if own is param)}
    last = body.returns[body.params.index(param)]
    others = [value for place, value in enumerate(body.returns) if value is not last or body.params[place] is not param]
    if last not in versions - {param} or any(_viewed(graph, value, inside) in versions for value in others):
        return f"{row.op} of its body writes what is also read otherwise afterwards"
    later = body.nodes[body.nodes.index(row) + 1 :]
    read = [value for node in later for value in (graph.producer[node.inputs[0]] if node.op in JOINS else node).inputs]
    if any(_viewed(graph, value, inside) is row.inputs[0] for value in read):
        return f"{row.op} of its body writes what is read again after it"
    if any(node is not row and node.op in ROWS and node.inputs[0] is row.inputs[0] for node in body.nodes):
        return f"{row.op} of its body writes one of two versions of the same tensor"
    return ""


def may_reach_caller(nodes: Sequence[Node], returns: Sequence[Value]) -> set[Value]:
    """Returns the values of all blocks that a program may return as they are, through loops, branches and ops that return an operand."""
    handed_on: dict[Value, list[Value]] = {}
    for node in nodes:
        for value, source in _handed_on(node):
            handed_on.setdefault(value, []).append(source)
    found = set[Value]()
    waiting = [*returns, *(value for node in nodes if _may_return_operand(node) for value in node.inputs)]
    while waiting:
        value = waiting.pop()
        if value not in found:
            found.add(value)
            waiting += handed_on.get(value, ())
    return found


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


# Rows that Python writes in place, in a loop that it runs turn by turn.
#
# A functional loop (`lax.scan`, a `fori_loop` with `dynamic_update_slice`) returns its table with one part replaced, and each turn
# would copy all of it. In place, all versions of the table are the same memory: what it was when the turn began, and after each
# write. The initial value is copied once before the first turn, so the caller's memory, and whatever else is the initial value, is
# never written. Then a write is seen only by those who read an earlier version after it. So every reader of a version, also of views
# of it, must come before the write that follows, must return memory of its own (`_FRESH`), and no version but the last may be
# returned; the last only in the table's own place, where the next turn takes it. What holds several tensors, has blocks, or may
# return its operand is not a reader that this allows. Programs with in-place ops are left alone altogether: they might write the
# initial value through another name, after the copy.

_FRESH: Final = frozenset(f"aten::{name}" for name in (
    "abs add addmm amax amin bmm cos cosh div eq erf exp ge gt le linear log lt matmul maximum mean minimum mm mul mv ne neg pow "
    "reciprocal relu rsqrt sigmoid silu sin sinh sqrt sub sum tanh where"
).split())  # fmt: skip
"""Ops whose results are always in memory of their own, in every library."""
_WRITES: Final = frozenset({*ROWS, "aten::index_put"})


def rows_in_place(loop: Node) -> dict[Node, int]:
    """Returns the nodes of a loop's body that may write the table that they get whole, each with the table's place among the carried
    values. The program must have no in-place ops."""
    (body,) = loop.blocks
    readers: dict[Value, list[int]] = {}
    for index, node in enumerate(body.nodes):
        for value in _all_reads(node):
            readers.setdefault(value, []).append(index)
    found: dict[Node, int] = {}
    for place, param in enumerate(body.params[1:]):
        rows, version = list[int](), param
        while len(own := [index for index in readers.get(version, ()) if _writes(body.nodes[index], version)]) == 1:
            rows += own
            version = body.nodes[own[0]].output
        versions = [param, *(body.nodes[row].output for row in rows)]
        if not rows or body.returns[place + 1] is not version or body.returns.count(version) > 1:
            continue
        ends = [*rows, len(body.nodes)]
        if all(_is_read_before(body, readers, version, end) for version, end in zip(versions, ends, strict=True)):
            found.update({body.nodes[row]: place for row in rows})
    return found


def _all_reads(node: Node) -> set[Value]:
    """Returns what a node and the nodes inside it read."""
    found, nodes = set[Value](), [node]
    for each in nodes:
        found.update(each.inputs)
        for block in each.blocks:
            found.update(block.returns)
            nodes.extend(block.nodes)
    return found


def _writes(node: Node, version: Value) -> bool:
    """Checks for an op that replaces a part of this version, with elements of the same type."""
    if node.op not in _WRITES or node.inputs[0] is not version or version in node.inputs[1:]:
        return False
    row = node.inputs[2 if node.op == "aten::index_put" else 1]
    types = [value.type for value in (version, row, node.output) if isinstance(value.type, TensorType)]
    return len(types) == 3 and all(type.is_static for type in types) and len({type.dtype for type in types}) == 1


def _is_read_before(body: Block, readers: Mapping[Value, Sequence[int]], version: Value, end: int) -> bool:
    """Checks that all readers of a version and of its views come before `end`, and return memory of their own."""
    waiting = [version]
    for value in waiting:
        if value is not version and value in body.returns:
            return False
        for index in readers.get(value, ()):
            node = body.nodes[index]
            if index == end and node.inputs[0] is value and value is version:
                continue
            if index >= end:
                return False
            if _is_view(node):
                waiting += node.outputs
            elif not _returns_fresh(node):
                return False
    return end == len(body.nodes) or version not in body.returns


def _returns_fresh(node: Node) -> bool:
    if node.op not in GROUPS or len(node.blocks) != 1:
        return node.op in _FRESH and not node.blocks
    (block,) = node.blocks
    makers = {value: inner.op for inner in block.nodes for value in inner.outputs}
    return all(makers.get(value) in _FRESH for value in block.returns)


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
