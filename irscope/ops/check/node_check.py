"""Checks each node against the schemas of its op: the number and kinds of operands and results, and possible extents.

`irscope.ir.verify` checks the invariants of every program and knows no op. This module adds the rules that follow from the
schemas, by the names that errors and tests use:

`operand-count`  an op with schemas has as many operands as one of them takes; prim ops that stand for Python's syntax
                 (`irscope.ops.check.syntax_forms`) have as many as the syntax has.
`operand-kind`   one of these schemas takes operands of these kinds.
`result-count`   the node has as many results as that schema returns.
`result-kind`    each result is of a kind that the schema returns.
`result-type`    the declared type of a result, or of a constant, does not contradict what the op makes: its element type, number of
                 dimensions, and extents where both are known (`irscope.ops.check.result_types` says what stays legal).
`attribute`      an op that needs an attribute has it, of the right type.
`extent`         no tensor has a negative extent, or an element count or stride that does not fit in 64 bits.

Only certain errors are reported, because programs come from many producers: torch's tracer passes tensors where numbers
are declared, torch.export passes numbers where tensors are, `Any` and classes may be anything, an optional may be present, numbers
convert into each other, and a number stands for a list of a fixed length. An op without schemas, or whose name only another
version of torch knows, is unknown: legal, and assumed to do anything. A node that passes here although no overload takes it
(`schema_of` is None) is unknown in the same way.

Answers are cached by op and types, so that a large graph costs one look-up per node.
"""

from __future__ import annotations

from typing import Final

from irscope.errors import VerifyError
from irscope.ir import Graph, Module, Node, TensorType, Type, graph_of
from irscope.ir.module import graphs_of, verify_module
from irscope.ir.text.printer import excerpt
from irscope.ir.verify import verify as verify_structure
from irscope.ops.check.extent_check import check_extents
from irscope.ops.check.result_types import ResultTypes
from irscope.ops.check.schema_misfit import Wrong, misfit
from irscope.ops.check.syntax_forms import wrong_form
from irscope.ops.registry import overloads
from irscope.ops.schema import torch_schemas

__all__ = ["check_nodes", "verify"]

_LONG: Final = 32
"""Nodes with more operands and results are constructors of containers, and their types are not cached."""


def verify(graph: Graph | Module) -> None:
    """Raises VerifyError at the first invariant that the graph, or a graph of the module, breaks.

    `irscope.ir.verify` lists the invariants of every graph, and `irscope.ops.check.node_check` those that follow from
    the schemas of the ops. An unknown op is legal.

    >>> import irscope as irs
    >>> b = irs.GraphBuilder()
    >>> x = b.input("x")
    >>> verify(b.finish([b.op("aten::relu", x, x, x, name="y")]))
    Traceback (most recent call last):
    irscope.errors.VerifyError: aten::relu takes 1 operand, and here it has 3   [operand-count]
    ...
    """
    if isinstance(graph, Module):
        verify_module(graph)
        for _, each in graphs_of(graph):
            check_nodes(each)
        return
    graph = graph_of(graph, "verify")
    verify_structure(graph)
    check_nodes(graph)


def check_nodes(graph: Graph) -> None:
    """Raises VerifyError at the first node that certainly does not fit its op; assumes that the structure is sound."""
    types: dict[int, Type] = {}
    known: dict[tuple[object, ...], Wrong | None] = {}
    result_types = ResultTypes(graph)
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
        wrong = wrong or result_types.wrong(node)
        if wrong is not None:
            raise _error(graph, node, wrong)
    check_extents(graph, types.values())


def _key(node: Node) -> tuple[object, ...] | None:
    """Return the cache key of the answer; None where caching would waste memory, or attributes matter."""
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
