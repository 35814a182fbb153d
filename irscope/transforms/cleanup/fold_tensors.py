"""Replaces small tensors that are the same at every run by constants: positions, masks built from them, initial states.

Known tensors follow from the nodes: one created from numbers is known when the numbers are, and a pure op of known
tensors produces a known one. NumPy computes it, so only ops are folded whose results are the same in every library:
no exponentials, no sums of floats.

A constant is one object for all runs. So a known tensor becomes a constant only where it cannot be distinguished from a
fresh one: its users produce memory of their own, and it is not a result, not an element of a list, and neither written
nor viewed. A node whose result is used in another way stays, and so do the nodes of the known tensors that it reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from time import perf_counter
from typing import Any, Final

import numpy as np

from irscope.analysis.per_graph import shapes_of
from irscope.analysis.shapes import Shapes
from irscope.ir import (
    NOT_CONSTANT,
    Block,
    Created,
    Edit,
    Erased,
    Graph,
    Node,
    PrimitiveType,
    Rewriter,
    TensorData,
    TensorType,
    Value,
    constant_of,
)
from irscope.ops.default_dtype import remembering_default
from irscope.ops.registry import bind, effect_of, op_of, schema_of
from irscope.ops.traits import CREATES, CREATES_LIKE, LOGICAL
from irscope.ops.typing import SLIPS, contiguous_strides
from irscope.transforms.base import PassRecord
from irscope.transforms.cleanup.dce import remove_dead_nodes
from irscope.transforms.cleanup.fold import constant_node

__all__ = ["fold_tensors"]

_MOST_ELEMENTS: Final = 1 << 12
_EXACT: Final = frozenset(
    f"aten::{name}"
    for name in (
        "add sub mul neg abs where eq ne lt le gt ge logical_and logical_or logical_not bitwise_and bitwise_or bitwise_not "
        "__and__ __or__ to _to_copy clone minimum maximum clamp masked_fill diff"
    ).split()
) | LOGICAL  # fmt: skip
_WHOLE_ONLY: Final = frozenset({"aten::cumsum"})
"""Ops that are exact on whole numbers only."""
_CANDIDATES: Final = CREATES | CREATES_LIKE | _EXACT | _WHOLE_ONLY


def fold_tensors(graph: Graph) -> PassRecord:
    """Replace nodes that compute the same tensor at every run by constants of at most 4,096 elements.

    >>> import irscope as irs
    >>> g = irs.parse('''graph(%x : Float(2, 3)):
    ...   %none : NoneType = prim::Constant()
    ...   %n : int = prim::Constant[value=3]()
    ...   %i : Tensor = aten::arange(%n, %none, %none, %none, %none)
    ...   %m : Tensor = aten::gt(%i, %n)
    ...   %y : Tensor = aten::where(%m, %x, %i)
    ...   return (%y)''')
    >>> [node.op for node in fold_tensors(g).after.nodes()]
    ['prim::Constant', 'prim::Constant', 'aten::where']
    """
    started = perf_counter()
    shapes = shapes_of(graph)
    known = _known_tensors(graph, shapes)
    kept = _replaceable(graph, known)
    rewriter = Rewriter(graph)
    for block in graph.blocks():
        edits: list[Edit] = []
        nodes: list[Node] = []
        for node in block.nodes:
            if node not in kept:
                nodes.append(node)
                continue
            array = known[node.output]
            constant = constant_node(node.output, TensorData.of(np.asarray(array, order="C")), like=node)
            reason = f"%{graph.names[node.output]} is the same at every run"
            edits += [Erased(node, reason), Created(constant, reason)]
            nodes.append(constant)
        if edits:
            rewriter.set_nodes(block, nodes, edits)
    folded = rewriter.finish()
    cleaned = remove_dead_nodes(folded) if folded is not graph else None
    after, more = (cleaned.after, cleaned.edits) if cleaned else (graph, ())
    all_edits, seconds = (*rewriter.edits, *more), perf_counter() - started
    after = remembering_default(after, all_edits)
    return PassRecord("fold-tensors", graph, after, all_edits, (), seconds, keeps_facts=True)


def _known_tensors(graph: Graph, shapes: Shapes) -> dict[Value, np.ndarray[Any, Any]]:
    """The tensors that nodes compute from numbers alone and that are never written, with their elements."""
    known: dict[Value, np.ndarray[Any, Any]] = {}
    nodes = list(graph.nodes())
    if not any(node.op in CREATES or node.op in CREATES_LIKE for node in nodes):
        return known
    nodes = _candidates(nodes)
    unwritten = _unwritten(graph, nodes)
    for node in nodes:
        if len(node.outputs) != 1 or node.output not in unwritten:
            continue
        if node.op in _CANDIDATES and (node.op not in _EXACT or any(value in known for value in node.inputs)):
            array = _computed(node, known, shapes)
            if array is not None:
                known[node.output] = array
    return known


def _candidates(nodes: Iterable[Node]) -> list[Node]:
    """The nodes that create tensors, and those that compute from or view such tensors, judged by their ops, in order."""
    found: list[Node] = []
    made: set[Value] = set()
    for node in nodes:
        begins = node.op in CREATES or node.op in CREATES_LIKE
        if begins or (not made.isdisjoint(node.inputs) and (node.op in _CANDIDATES or effect_of(node) == "view")):
            found.append(node)
            made.update(node.outputs)
    return found


def _unwritten(graph: Graph, nodes: Sequence[Node]) -> set[Value]:
    """Values that are only read, as are all views of them; users are visited before the values that they read."""
    found: set[Value] = set()
    for node in reversed(nodes):
        for value in node.outputs:
            if all(_only_looks(use.user, found, graph) for use in graph.users.get(value, ())):
                found.add(value)
    return found


def _only_looks(user: Node | Block, unwritten: set[Value], graph: Graph) -> bool:
    """Whether a user neither writes a tensor, nor passes it to something that may."""
    if isinstance(user, Block):
        return user is graph.body
    effect = "opaque" if user.blocks else effect_of(user)
    if effect == "view":
        return all(value in unwritten for value in user.outputs)
    return effect == "pure" and all(isinstance(v.type, TensorType | PrimitiveType) for v in user.outputs)


def _computed(node: Node, known: dict[Value, np.ndarray[Any, Any]], shapes: Shapes) -> np.ndarray[Any, Any] | None:
    """The elements of a node's result, if it is a small contiguous tensor on the CPU; otherwise None."""
    op, schema = op_of(node), schema_of(node)
    found = shapes.type(node.output) if len(node.outputs) == 1 else None
    if op is None or schema is None or op.reference is None or not isinstance(found, TensorType):
        return None
    shape = tuple(dim for dim in found.shape or () if isinstance(dim, int))
    if not found.is_static or found.dtype == "bfloat16" or found.device not in (None, "cpu"):
        return None
    if found.numel is None or found.numel > _MOST_ELEMENTS or found.strides != contiguous_strides(shape):
        return None
    arguments: dict[str, Any] = {}
    for name, operand in bind(node, schema).items():
        arguments[name] = _argument(node, operand, known, shapes) if isinstance(operand, Value) else operand
        if arguments[name] is NOT_CONSTANT:
            return None
    if node.op in _WHOLE_ONLY and any(_is_float(value) for value in arguments.values()):
        return None
    try:
        with np.errstate(all="ignore"):
            array = np.asarray(op.reference(**arguments))
    except (*SLIPS, MemoryError):  # what fails when it is computed fails when the program runs
        return None
    return array if array.shape == shape and str(array.dtype) == found.dtype else None


def _argument(node: Node, operand: Value, known: dict[Value, np.ndarray[Any, Any]], shapes: Shapes) -> Any:
    if not isinstance(operand.type, TensorType):
        payload = constant_of(shapes.graph, operand)
        payload = shapes.known(operand) if payload is NOT_CONSTANT else payload
        return NOT_CONSTANT if isinstance(payload, TensorData | Graph) else payload
    if operand in known:
        return known[operand]
    found = shapes.type(operand)
    if node.op in CREATES_LIKE and operand is node.inputs[0] and isinstance(found, TensorType) and found.dtype is not None:
        shape = () if found.shape is None or not found.is_static else found.shape
        exact = node.op.startswith("aten::new_") or (found.is_static and found.shape is not None)
        sizes = tuple(dim for dim in shape if isinstance(dim, int))
        return (
            np.broadcast_to(np.zeros((), found.dtype), sizes) if exact and found.dtype != "bfloat16" else NOT_CONSTANT
        )
    return NOT_CONSTANT


def _is_float(value: Any) -> bool:
    return isinstance(value, float) or (isinstance(value, np.ndarray) and value.dtype.kind == "f")


def _replaceable(graph: Graph, known: Iterable[Value]) -> set[Node]:
    """The nodes of known results that cannot be distinguished from constants; later nodes are decided first."""
    made = {graph.producer[value]: value for value in known}
    kept = set(made)
    for node in reversed(made):
        if not all(_reads_only(use.user, kept) for use in graph.users.get(made[node], ())):
            kept.discard(node)
    return kept


def _reads_only(user: object, kept: set[Node]) -> bool:
    """Whether a user produces memory of its own, or is itself replaced."""
    if not isinstance(user, Node) or user.blocks:
        return False
    return user in kept or (effect_of(user) == "pure" and all(isinstance(v.type, TensorType) for v in user.outputs))
