"""Constant folding: replaces numbers that are known before the program runs by constants, and ifs by the branch that is
known to be taken; removes assertions that the types settle, and ops that are known to return their operand itself.

Scripted models compute with numbers: `bn_training` is the result of an if, extents of `size`, and assertions about
ranks raise in a branch. `irscope.analysis.shapes` knows these numbers; this pass writes them into the program, so that
later passes see straight-line code.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from time import perf_counter
from typing import Any, Final

from irscope._base.frozen import EMPTY, FrozenDict
from irscope.analysis.per_graph import shapes_of
from irscope.analysis.shapes import Shapes
from irscope.ir import (
    BOOL,
    FLOAT,
    INT,
    NOT_CONSTANT,
    STR,
    Block,
    Created,
    Edit,
    Erased,
    Graph,
    Node,
    Rewriter,
    TensorType,
    Type,
    Value,
    make_node,
    new_id,
)
from irscope.ops.default_dtype import remembering_default
from irscope.ops.registry import bind, schema_of
from irscope.ops.typing import dtype_name
from irscope.transforms.base import PassRecord
from irscope.transforms.cleanup.dce import has_effect, remove_dead_nodes
from irscope.transforms.cleanup.rules import RULES, Site

__all__ = ["constant_node", "fold_constants"]

_PYTHON_TYPE: Final[Mapping[Type, type]] = {INT: int, FLOAT: float, BOOL: bool, STR: str}
"""The types of values that are folded, and the Python types that their payloads must have."""


def fold_constants(graph: Graph) -> PassRecord:
    """Fold known numbers and ifs, then remove nodes that became unused.

    A folded value stays the same Value, now produced by a `prim::Constant`. The nodes of a folded if's taken branch
    move out of it, and the branch's results replace those of the if.

    >>> import irscope as irs
    >>> g = irs.parse('''graph(%x : Float(2, 3)):
    ...   %n : int = aten::dim(%x)
    ...   %y : Tensor = aten::add(%x, %x, %n)
    ...   return (%y)''')
    >>> print(fold_constants(g).after)
    graph(%x : Float(2, 3)):
      %n : int = prim::Constant[value=2]()
      %y : Tensor = aten::add(%x, %x, %n)
      return (%y)
    """
    started = perf_counter()
    rewriter = Rewriter(graph)
    shapes = shapes_of(graph)
    pending = [graph.body]
    while pending:
        block = pending.pop()
        nodes, edits = _folded(block, shapes, rewriter)
        if edits:
            rewriter.set_nodes(block, nodes, edits)
        pending.extend(inner for node in nodes for inner in node.blocks)
    folded = rewriter.finish()
    cleaned = remove_dead_nodes(folded)
    edits = [*rewriter.edits, *cleaned.edits]
    after = remembering_default(cleaned.after, cleaned.edits)
    seconds = perf_counter() - started
    return PassRecord("fold-constants", graph, after, tuple(edits), (), seconds, keeps_facts=True)


def _folded(block: Block, shapes: Shapes, rewriter: Rewriter) -> tuple[list[Node], list[Edit]]:
    """A block's nodes, with constants for known numbers and the nodes of known branches instead of their ifs; and the edits."""
    out: list[Node] = []
    edits: list[Edit] = []
    stack: list[Iterator[Node]] = [iter(block.nodes)]
    while stack:
        for node in stack[-1]:
            branch = _known_branch(node, shapes)
            if branch is not None:
                reason = f"its condition %{rewriter.graph.names[node.inputs[0]]} is always {branch is node.blocks[0]}"
                for old, new in zip(node.outputs, branch.returns, strict=True):
                    rewriter.replace(old, new, reason=reason)
                edits.append(Erased(node, reason))
                stack.append(iter(branch.nodes))
                break
            if node.op in _ASSERTIONS and _always_holds(node, shapes):
                edits.append(Erased(node, "the types say that it holds"))
                continue
            same = _operand_returned(node, shapes, rewriter)
            if same is not None:
                reason = f"it returns %{rewriter.graph.names[same]} itself"
                rewriter.replace(node.output, same, reason=reason)
                edits.append(Erased(node, reason))
                continue
            constants = _constants_for(node, shapes)
            out.extend(constants or (node,))
            if constants:
                edits.append(Erased(node, "its results are known"))
                edits.extend(
                    Created(new, f"%{rewriter.graph.names[new.output]} is always {new.attrs['value']!r}")
                    for new in constants
                )
        else:
            stack.pop()
    return out, edits


_ASSERTIONS: Final = frozenset({
    "aten::_assert_tensor_metadata", "aten::_assert_scalar", "aten::sym_constrain_range", "aten::sym_constrain_range_for_size",
})  # fmt: skip


def _always_holds(node: Node, shapes: Shapes) -> bool:
    """Whether an assertion about a number, or about a tensor's type and layout, holds in every run."""
    schema = schema_of(node)
    if schema is None:
        return False
    (_, subject), *given = bind(node, schema).items()
    asked = {name: shapes.known(each) if isinstance(each, Value) else each for name, each in given}
    if NOT_CONSTANT in asked.values():
        return False
    if node.op != "aten::_assert_tensor_metadata":
        number = shapes.known(subject)
        low, high = asked.get("min"), asked.get("max")
        within = number is not NOT_CONSTANT and (low is None or number >= low) and (high is None or number <= high)
        return within and (node.op != "aten::_assert_scalar" or bool(number))
    type = shapes.type(subject)
    if not isinstance(type, TensorType):
        return False
    strided = type.strides is not None or type.shape == () or not _may_be_sparse(shapes.graph)
    facts = {
        "size": type.shape, "stride": type.strides, "dtype": type.dtype, "device": type.device, "layout": 0 if strided else None,
    }  # fmt: skip
    asked["dtype"] = dtype_name(asked["dtype"], None)
    return all(wanted is None or (tuple(wanted) if isinstance(wanted, list) else wanted) == facts[name] for name, wanted in asked.items())


_RETURNS_OPERAND: Final = {
    op: rule for rule in RULES if rule.name in ("cast-to-itself", "contiguous-already", "drops-nothing") for op in rule.ops
}


def _operand_returned(node: Node, shapes: Shapes, rewriter: Rewriter) -> Value | None:
    """The operand that a node is known to return as an object: a cast to its own type, a dropout that does not train."""
    rule = _RETURNS_OPERAND.get(node.op)
    if rule is None or not shapes.reshaped.isdisjoint((node.inputs[0], node.output)):
        return None
    site = Site(node, tuple(map(rewriter.resolve, node.inputs)), lambda value: None, shapes.known, lambda value: True)
    found = rule.find(site)
    if found is None or not isinstance(found[0].type, TensorType) or not isinstance(node.output.type, TensorType):
        return None
    return None if node.output.type.is_static and not found[0].type.is_static else found[0]


def _may_be_sparse(graph: Graph) -> bool:
    """Whether some op may make a tensor whose elements are not laid out by strides."""
    return any(word in node.op for node in graph.nodes() for word in ("sparse", "mkldnn", "nested"))


def _known_branch(node: Node, shapes: Shapes) -> Block | None:
    if node.op != "prim::If":
        return None
    condition = shapes.known(node.inputs[0])
    return None if condition is NOT_CONSTANT else node.blocks[0 if condition else 1]


def _constants_for(node: Node, shapes: Shapes) -> list[Node]:
    """Constants for all outputs of a node that only computes known numbers; an empty list for any other node."""
    if node.op == "prim::Constant" or node.blocks or not node.outputs or isinstance(node.outputs[0].type, TensorType):
        return []
    payloads = [_known_number(value, shapes) for value in node.outputs]
    if any(payload is NOT_CONSTANT for payload in payloads) or has_effect(node):
        return []
    return [constant_node(v, payload, like=node) for v, payload in zip(node.outputs, payloads, strict=True)]


def _known_number(value: Value, shapes: Shapes) -> Any:
    """A known number or string whose Python type is exactly the value's, or NOT_CONSTANT."""
    payload = shapes.known(value) if value.type in _PYTHON_TYPE else NOT_CONSTANT
    return payload if type(payload) is _PYTHON_TYPE.get(value.type) else NOT_CONSTANT


def constant_node(value: Value, payload: Any, *, like: Node) -> Node:
    """Build a `prim::Constant` that produces this Value itself, with the location and scope of `like`."""
    attrs = EMPTY if payload is None else FrozenDict(value=int(payload) if isinstance(payload, bool) else payload)
    return make_node(new_id(), "prim::Constant", (), (value,), attrs, (), like.location, like.scope)
