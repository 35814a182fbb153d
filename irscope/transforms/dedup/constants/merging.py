"""Constants that are the same become one, where nobody can tell them apart, now or later.

*Literals* (tensors in the program) are nobody's but the program's. Two become one if they have one type, strides included, and
the same bits, nobody writes them, and no caller gets hold of both (`cleanup.replaceability`).

*Parameters and buffers* belong to somebody else: a training step, `load_state_dict` or a line of Python may change one of them
between two calls, and a compiled program reads the memory that it was given. Two that are tied, one memory with one shape and
strides, stay the same whatever happens, and always become one value. Two that merely have the same elements (a fresh
network's running means are all zeros) become one only where the caller says that they are frozen; those for which a gradient is
wanted not even then.

What is declined is a remark. Linear in the nodes, and in the bytes of the constants.
"""

from __future__ import annotations

from dataclasses import replace
from time import perf_counter

from irscope.analysis.per_graph import alias_db_of
from irscope.ir import Graph, Rewriter, Value
from irscope.transforms.base import PassRecord, Remark
from irscope.transforms.cleanup.replaceability import EscapeInfo
from irscope.transforms.dedup.constants.sharing import Sharing, find_constants

__all__ = ["merge_constants"]


def merge_constants(graph: Graph, *, frozen: bool = False) -> PassRecord:
    """Keep one of the constants that are the same; `frozen` promises that parameters and buffers never change again.

    >>> import numpy as np, irscope as irs
    >>> from irscope.ir import GraphBuilder, TensorData, TensorType
    >>> b = GraphBuilder()
    >>> x, w = b.input("x"), TensorData.of(np.ones(2, np.float32))
    >>> first, second = (b.constant(w, TensorType("float32", (2,)), name) for name in ("first", "second"))
    >>> y = b.op("aten::mul", b.op("aten::mul", x, first), second)
    >>> print(merge_constants(b.finish([y])).after)
    graph(%x : Tensor):
      %first : Float(2) = prim::Constant[value= 1 1 [ CPUFloatType{2} ]]()
      %0 : Tensor = aten::mul(%x, %first)
      %1 : Tensor = aten::mul(%0, %first)
      return (%1)
    """
    started = perf_counter()
    merge = _Merge(graph, frozen)
    for found in find_constants(graph).shared:
        if found.how in ("tied", "equal"):
            merge.consider(found)
    after = merge.finish()
    return PassRecord(
        "dedup-constants", graph, after, merge.rewriter.edits, tuple(merge.remarks), perf_counter() - started
    )


class _Merge:
    """The constants of one graph that are becoming one."""

    def __init__(self, graph: Graph, frozen: bool) -> None:
        self.rewriter = Rewriter(graph)
        self.remarks: list[Remark] = []
        self._graph = graph
        self._frozen = frozen
        self._gone: set[Value] = set()
        self._onlookers: EscapeInfo | None = None

    def consider(self, found: Sharing) -> None:
        """Let one constant stand for another, or say why not."""
        value, other = found.constant.where, found.other.where
        assert isinstance(value, Value)
        assert isinstance(other, Value)
        rule, obstacle = self._obstacle(found, value, other)
        name = f"%{self._graph.names[other]}"
        if obstacle:
            because = f"{name} has the same elements, but {obstacle}"
            self.remarks.append(Remark("missed", rule, value, because, (other,)))
            return
        because = f"{name} is the same memory" if found.how == "tied" and not found.constant.node else f"{name} has the same elements"
        self.rewriter.replace(value, other, reason=because)
        if found.constant.node is not None:
            self.rewriter.erase(found.constant.node, reason=because)
        else:
            self._gone.add(value)
        self.remarks.append(Remark("passed", "same-constant", value, f"{because}; {found.bytes_saved} bytes saved", (other,)))

    def _obstacle(self, found: Sharing, value: Value, other: Value) -> tuple[str, str]:
        """The rule that keeps two apart, and what it says; empty if none does."""
        if value.type != other.type or found.constant.strides != found.other.strides:
            return "another-type", f"their types differ: {value.type} and {other.type}"
        if found.constant.data.device != found.other.data.device:
            return "another-type", "they are on different devices"
        if self._graph.block_of[value] is not self._graph.body or self._graph.block_of[other] is not self._graph.body:
            return "nested", "one of them stands in a block"
        bound = [one for one in (found.constant, found.other) if one.node is None]
        if found.how == "tied" and len(bound) == 2:
            return "", ""
        if any(one.is_trained for one in bound):
            return "trained", "a training step may change one of them"
        if bound and not self._frozen:
            return "may-change", "somebody may change one of them between two calls (`frozen` says that nobody does)"
        if found.other.node is not None and found.constant.node is None:
            return "order", "it is made later"
        return self._seen(value, other, bool(bound))

    def _seen(self, value: Value, other: Value, bound: bool) -> tuple[str, str]:
        db = alias_db_of(self._graph)
        if db.is_written(value) or db.is_written(other):
            return "written-memory", "one of them is written"
        if bound:
            reached = any(db.may_contain_alias(out, one) for out in self._graph.outputs for one in (value, other))
            return ("seen-memory", "a caller may get hold of one of them") if reached else ("", "")
        if self._onlookers is None:
            self._onlookers = EscapeInfo(db)
        if self._onlookers.obstacle(value, other):
            return "seen-memory", "a caller may get hold of both"
        self._onlookers.become_one(value, other)
        return "", ""

    def finish(self) -> Graph:
        """The next graph, without the inputs that nobody reads any more."""
        after = self.rewriter.finish()
        if not self._gone:
            return after
        params = tuple(value for value in after.body.params if value not in self._gone)
        bound = {value: thing for value, thing in after.bound.items() if value not in self._gone}
        return replace(after, body=replace(after.body, params=params), bound=bound)
