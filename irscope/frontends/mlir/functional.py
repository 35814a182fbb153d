"""Decides whether an imported program is functional; then its language is named, and the alias db relies on that."""

from __future__ import annotations

from collections.abc import Set

from irscope.ir import ClassType, Graph
from irscope.ops.functional import functional_source
from irscope.ops.registry import effect_of

__all__ = ["language_of"]

_STRUCTURE = ("prim::Constant", "prim::If", "prim::Loop", "prim::ListConstruct", "func::call")


def language_of(graph: Graph, dialects: Set[str]) -> str:
    """Returns `StableHLO` or `MLIR` if every value is a tensor or number and no op writes; otherwise an empty text.

    Tensors of MLIR are values: an op on them creates new ones. The ops they are mapped to here (`aten` views included)
    preserve that, as long as none of them writes. An unknown op, or a type that may refer to memory, makes the program
    not functional.
    """
    if any(value.type.__class__ is ClassType for value in graph.values()):
        return ""
    for node in graph.nodes():
        op = node.op
        if op not in _STRUCTURE and not functional_source(op) and effect_of(node) not in ("pure", "view"):
            return ""
    return "StableHLO" if dialects & {"stablehlo", "chlo"} else "MLIR"
