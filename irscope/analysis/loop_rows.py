"""Rows of a loop's table that are written where the table is, instead of into a copy of all of it."""

from collections.abc import Mapping, Sequence
from typing import Final

from irscope._base.nested import grouped
from irscope.ir import GROUPS, Block, ListType, Node, TensorType, Type, Value, nest_of, reads_of
from irscope.ops.registry import effect_of
from irscope.ops.traits import LAYOUT_READERS, VIEWS

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

ROWS: Final = {"aten::select_scatter": "aten::select", "aten::slice_scatter": "aten::slice"}
"""Ops that return a tensor with other elements in a part, and the view that is this part."""
_FRESH: Final = frozenset(f"aten::{name}" for name in (
    "abs add addmm amax amin bmm cos cosh div eq erf exp ge gt le linear log lt matmul maximum mean minimum mm mul mv ne neg pow "
    "reciprocal relu rsqrt sigmoid silu sin sinh sqrt sub sum tanh where"
).split())  # fmt: skip
"""Ops whose results are always in memory of their own, in every library."""
_WRITES: Final = {**dict.fromkeys(ROWS, 1), "aten::index_put": 2, "aten::index_copy": 3}
"""Ops that replace a part of their first operand, and the place of what they write among the operands."""


def rows_in_place(loop: Node) -> dict[Node, int]:
    """Returns the nodes of a loop's body that may write the table that they get whole, each with the table's place among the carried
    values. The program must have no in-place ops."""
    (body,) = loop.blocks
    readers = grouped((value, index) for index, node in enumerate(body.nodes) for value in set(reads_of(node)))
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


def _writes(node: Node, version: Value) -> bool:
    """Checks for an op that replaces a part of this version, with elements of the same type."""
    if node.op not in _WRITES or node.inputs[0] is not version or version in node.inputs[1:]:
        return False
    row = node.inputs[_WRITES[node.op]]
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
            if is_view(node):
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


def is_functional(block: Block) -> bool:
    """Checks that no op of a block, or of the branches and loops in it, writes to an operand."""
    return not any(node.op.endswith("_") and effect_of(node) not in ("pure", "view") for node in nest_of(block))


def is_view(node: Node) -> bool:
    """Checks for a view, one that returns several tensors in a list, and an op that takes them from the list; not for `as_strided`,
    which counts from the start of the storage."""
    if node.op in ("aten::__getitem__", "prim::ListUnpack"):
        return _has_tensors(node.inputs[0].type)
    return node.op in VIEWS - LAYOUT_READERS and len(node.outputs) == 1 and _has_tensors(node.output.type) and not node.blocks


def _has_tensors(type: Type) -> bool:
    return isinstance(type, TensorType) or (isinstance(type, ListType) and isinstance(type.element, TensorType))
