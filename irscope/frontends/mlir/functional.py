"""Whether a program that came in has no memory: then its language is named, and the alias db takes its word."""

from __future__ import annotations

from collections.abc import Set

from irscope.ir import ClassType, Graph
from irscope.ops.functional import functional_source
from irscope.ops.registry import effect_of

__all__ = ["language_of"]

_STRUCTURE = ("prim::Constant", "prim::If", "prim::Loop", "prim::ListConstruct", "func::call")


def language_of(graph: Graph, dialects: Set[str]) -> str:
    """`StableHLO` or `MLIR` if every value is a tensor or number and no op writes; otherwise empty.

    Tensors of MLIR are values: an op on them makes new ones. What the ops are mapped to here (`aten` views, too) keeps
    that, as long as none of them writes. An op that is not known, or has a type with something behind it, decides it.
    """
    if any(value.type.__class__ is ClassType for value in graph.values()):
        return ""
    for node in graph.nodes():
        op = node.op
        if op not in _STRUCTURE and not functional_source(op) and effect_of(node) not in ("pure", "view"):
            return ""
    return "StableHLO" if dialects & {"stablehlo", "chlo"} else "MLIR"
