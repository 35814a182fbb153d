"""Graph changes that apply a remark: without a copy, with a constant computed once, with each result computed once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from irscope._base.frozen import FrozenDict
from irscope.frontends.torch.values import payload_of
from irscope.ir import Graph, Node, Rewriter, TensorData, Value, make_node, new_id
from irscope.runtime.arrays import is_torch_tensor
from irscope.runtime.program import compile_graph
from irscope.transforms.cleanup import remove_dead_nodes

__all__ = ["known_once", "without_copies"]


def without_copies(graph: Graph, copies: Iterable[Node]) -> Graph:
    """Returns the graph with the users of these copies reading the originals."""
    rewriter = Rewriter(graph)
    for node in copies:
        rewriter.replace(node.output, node.inputs[0], reason="a redundant copy")
    return remove_dead_nodes(rewriter.finish()).after


def known_once(graph: Graph, values: Sequence[Value]) -> Graph:
    """Returns the graph with values that depend on no argument computed now and held as constants."""
    rewriter = Rewriter(graph)
    for value, tensor in zip(values, _computed(graph, values), strict=True):
        maker = graph.producer[value]
        made = Value(new_id(), value.type, value.name)
        constant = make_node(
            new_id(), "prim::Constant", (), (made,), FrozenDict(value=_payload(tensor)), (), maker.location, maker.scope
        )
        rewriter.insert_before(maker, constant, reason="it is the same in every call")
        rewriter.replace(value, made, reason="it is the same in every call")
    return remove_dead_nodes(rewriter.finish()).after


def _computed(graph: Graph, values: Sequence[Value]) -> list[Any]:
    """Computes values that depend on no argument, and nothing that they do not need."""
    body = replace(graph.body, returns=tuple(values))
    cut = remove_dead_nodes(replace(graph, body=body)).after
    needed = {value for node in cut.nodes() for value in node.inputs}
    params = tuple(value for value in cut.body.params if value in needed)
    bound = {value: held for value, held in cut.bound.items() if value in needed}
    small = replace(cut, body=replace(cut.body, params=params), bound=bound)
    found = compile_graph(small, "cpu", use_kernels=False)()
    return list(found) if isinstance(found, tuple) else [found]


def _payload(tensor: Any) -> TensorData:
    if is_torch_tensor(tensor):
        made: TensorData = payload_of(tensor)
        return made
    return TensorData.of(np.asarray(tensor))
