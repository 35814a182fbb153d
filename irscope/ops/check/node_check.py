"""Whether each node is what its op takes and gives: the number of operands and results, their kinds, and extents that exist.

`irscope.ir.verify` knows what every program keeps, and no op. Here stands what the schemas add, by the names that errors
and tests use:

`operand-count`  an op with schemas has as many operands as one of them takes; prim ops that stand for Python's syntax
                 (`irscope.ops.check.syntax_forms`) as many as the syntax has.
`operand-kind`   one of these schemas takes operands of these kinds.
`result-count`   it has as many results as that schema gives.
`result-kind`    a result is of a kind that the schema gives.
`attribute`      an op that needs an attribute has it, of its type.
`extent`         no tensor has an extent below zero, nor more elements or steps than 64 bits count.

Only what is certainly wrong is refused, because programs come from many hands: torch's tracer gives tensors where numbers
are wanted, torch.export numbers where tensors are, `Any` and classes may be anything, an optional may be there, numbers turn
into each other, and a number stands for a list of a fixed length. An op without schemas, or whose name only another
version of torch knows, is unknown: legal, and taken to do anything. A node that passes here and is still taken by no overload
(`schema_of` is None) is unknown in the same way.

Answers are kept by op and types, so that a large graph costs one look-up a node.
"""

from __future__ import annotations

from typing import Final

from irscope.errors import VerifyError
from irscope.ir import Graph, Node, TensorType, Type, graph_of
from irscope.ir.text.excerpt import excerpt
from irscope.ir.verify import verify as verify_structure
from irscope.ops.check.extent_check import check_extents
from irscope.ops.check.schema_misfit import Wrong, misfit
from irscope.ops.check.syntax_forms import wrong_form
from irscope.ops.registry import overloads
from irscope.ops.schema import torch_schemas

__all__ = ["check_nodes", "verify"]

_LONG: Final = 32
"""Nodes with more operands are constructors of containers, and their types are not kept."""


def verify(graph: Graph) -> None:
    """Raises VerifyError at the first invariant that the graph breaks.

    What every graph keeps is told in `irscope.ir.verify`; that each node is what its op takes and gives, in
    `irscope.ops.check.node_check`. An op that nobody knows is legal.

    >>> import irscope as irs
    >>> b = irs.GraphBuilder()
    >>> x = b.input("x")
    >>> verify(b.finish([b.op("aten::relu", x, x, x, name="y")]))
    Traceback (most recent call last):
    irscope.errors.VerifyError: aten::relu takes 1 operand, and here it has 3   [operand-count]
    ...
    """
    graph = graph_of(graph, "verify")
    verify_structure(graph)
    check_nodes(graph)


def check_nodes(graph: Graph) -> None:
    """Raises VerifyError at the first node that certainly is not what its op takes and gives; the structure is sound."""
    types: dict[int, Type] = {}
    known: dict[tuple[object, ...], Wrong | None] = {}
    for value in graph.inputs:
        types[id(value.type)] = value.type
    for node in graph.nodes():
        for value in node.outputs:
            types[id(value.type)] = value.type
        for block in node.blocks:
            for value in block.params:
                types[id(value.type)] = value.type
        key = _key(node)
        if key is None:
            wrong = _wrong(node)
        elif key in known:
            wrong = known[key]
        else:
            wrong = known[key] = _wrong(node)
        if wrong is not None:
            raise _error(graph, node, wrong)
    check_extents(graph, types.values())


def _key(node: Node) -> tuple[object, ...] | None:
    """What the answer depends on; None where keeping it would fill the memory for nothing, or attributes matter."""
    if len(node.inputs) + len(node.outputs) > _LONG or node.attrs:
        return None
    inputs = [TensorType if value.type.__class__ is TensorType else value.type for value in node.inputs]
    outputs = [TensorType if value.type.__class__ is TensorType else value.type for value in node.outputs]
    return node.op, len(inputs), *inputs, *outputs, len(node.blocks)


def _error(graph: Graph, node: Node, wrong: Wrong) -> VerifyError:
    return VerifyError(wrong.what, where=excerpt(graph, {node: ""}), rule=wrong.rule, hint=wrong.hint)


def _wrong(node: Node) -> Wrong | None:
    if node.op.startswith("prim::"):
        form = wrong_form(node)
        if form is not None:
            return Wrong(*form)
    schemas = overloads(node.op)
    if not schemas:
        return None
    if node.blocks and node.op.startswith("aten::"):
        return Wrong("block-arity", f"{node.op} has no blocks", "a region of another namespace may have any")
    found = misfit(schemas, node)
    if found is None or misfit((*schemas, *torch_schemas(node.op)), node) is None:
        return None
    return found
