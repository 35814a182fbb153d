"""Merges constants that are the same, where the difference is not observable, now or later.

*Literals* (tensors in the program) belong to the program alone. Two become one if they have one type, strides included, and
the same bits, neither is written, and no caller gets hold of either (`cleanup.replaceability`): a caller could write it, and a
constant is one memory for all calls.

*Parameters and buffers* belong to the caller: a training step, `load_state_dict` or a line of Python may change one of them
between two calls, and a compiled program reads the memory that it was given. Two tied ones, one memory with one shape and
strides, always stay the same, and always become one value. Two that merely have the same elements (a fresh network's
running means are all zeros) become one only where the caller says that they are frozen, and never if they require a gradient.

From step `transposed` on, a constant that follows from another is computed from it (`following` says how, at what cost, and when
not).

Each declined merge is a remark. Linear in the nodes, and in the bytes of the constants.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from time import perf_counter
from typing import Final, get_args

from irscope.analysis.per_graph import alias_db_of
from irscope.errors import ArgumentError
from irscope.ir import Edit, Graph, Node, Rewriter, Value
from irscope.transforms.base import PassRecord, Remark
from irscope.transforms.cleanup.replaceability import EscapeInfo
from irscope.transforms.dedup.constants.following import Following, following
from irscope.transforms.dedup.constants.sharing import ConstantStep, Sharing, find_constants

__all__ = ["STEPS", "merge_constants", "parents_first", "step_of"]

STEPS: Final[tuple[ConstantStep, ...]] = get_args(ConstantStep)


def step_of(found: Sharing) -> ConstantStep:
    """Returns the first step at which a constant and the other are in one class."""
    return "tied" if found.how == "view" else found.how


def parents_first(shared: Iterable[Sharing], step: ConstantStep) -> list[Sharing]:
    """Returns the sharings up to a step, each after the one of its other constant; otherwise in the order given."""
    wanted = {found.constant: found for found in shared if STEPS.index(step_of(found)) <= STEPS.index(step)}
    order: dict[Sharing, None] = {}
    for found in wanted.values():
        chain = [found]
        while (before := wanted.get(chain[-1].other)) is not None and before not in order:
            chain.append(before)
        order.update(dict.fromkeys(reversed(chain)))
    return list(order)


def merge_constants(graph: Graph, *, frozen: bool = False, step: ConstantStep = "equal") -> PassRecord:
    """Keep one of the constants that are the same by a step; `frozen` promises that parameters and buffers never change again.
    Raises ArgumentError for an unknown step.

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
    if step not in STEPS:
        raise ArgumentError(f"there is no relation {step!r} of constants", hint=f"choose one of {', '.join(STEPS)}")
    here, passed, edits = graph, list[Remark](), list[Edit]()
    while True:  # a constant that was an obstacle may be gone in the next round
        merge = _Merge(here, frozen)
        for found in parents_first(find_constants(here).shared, step):
            if found.how != "view" and found.constant.where is not found.other.where:
                merge.consider(found)
        after = merge.finish()
        edits += merge.rewriter.edits
        passed += [remark for remark in merge.remarks if remark.kind == "passed"]
        if after is here or step in ("tied", "equal"):
            break
        here = after
    missed = [remark for remark in merge.remarks if remark.kind == "missed"]
    return PassRecord("dedup-constants", graph, after, tuple(edits), (*passed, *missed), perf_counter() - started)


_HOLDS: Final = {
    "transposed": "it is the transpose of {}", "cast": "it is a conversion of {}", "part": "it is a part of {}",
}  # fmt: skip


class _Merge:
    """The merges of constants in one graph: first each is decided, then all are carried out."""

    def __init__(self, graph: Graph, frozen: bool) -> None:
        self.rewriter = Rewriter(graph)
        self.remarks: list[Remark] = []
        self._graph = graph
        self._frozen = frozen
        self._leader: dict[Value, Value] = {}
        """The constant that replaces another as it is."""
        self._computed: dict[Value, tuple[Value, Following, str]] = {}
        """For each computed constant, the constant that it is computed from, the ops, and the reason."""
        self._tied: dict[str, tuple[str, ...]] = {}
        self._onlookers: EscapeInfo | None = None

    def consider(self, found: Sharing) -> None:
        """Decide whether one constant replaces another, or add a remark that says why not."""
        value, other = found.constant.where, found.other.where
        assert isinstance(value, Value)
        assert isinstance(other, Value)
        is_same = found.how in ("tied", "equal")
        how = Following() if is_same else following(found, self._graph)
        rule, obstacle = (how.rule, how.obstacle) if how.obstacle else self._obstacle(found, value, other)
        name = f"%{self._graph.names[other]}"
        because = _HOLDS.get(found.how, "{} has the same elements").format(name)
        if obstacle:
            self.remarks.append(Remark("missed", rule, value, f"{because}, but {obstacle}", (other,)))
            return
        if found.how == "tied" and not found.constant.node:
            because = f"{name} is the same memory"
            self._tied[other.name or ""] = (*self._tied.get(other.name or "", ()), value.name or "")
        leader = self._leader.get(other, other)
        if is_same:
            self._leader[value] = leader
        else:
            self._computed[value] = leader, how, because
        cost = f", and each run writes {how.copied:,}" if how.copied else ""
        self.remarks.append(Remark("passed", "same-constant", value, f"{because}; {found.bytes_saved} bytes saved{cost}", (other,)))

    def _obstacle(self, found: Sharing, value: Value, other: Value) -> tuple[str, str]:
        """The rule that keeps two apart, and its reason; empty if there is none."""
        is_same = found.how in ("tied", "equal")
        if is_same and (value.type != other.type or found.constant.strides != found.other.strides):
            return "another-type", f"their types differ: {value.type} and {other.type}"
        if found.constant.data.device != found.other.data.device:
            return "another-type", "they are on different devices"
        if self._graph.block_of[value] is not self._graph.body or self._graph.block_of[other] is not self._graph.body:
            return "nested", "one of them is in a nested block"
        bound = [one for one in (found.constant, found.other) if one.node is None]
        if found.how == "tied" and len(bound) == 2:
            return "", ""
        if any(one.is_trained for one in bound):
            return "trained", "a training step may change one of them"
        if bound and not self._frozen:
            return "may-change", "one of them may be changed between two calls (`frozen=True` promises that they are not)"
        if is_same and found.other.node is not None and found.constant.node is None:
            return "order", "it is defined later"
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
        if self._onlookers.obstacle(value, other, lasting=True):
            return "seen-memory", "a caller may get hold of one of them"
        self._onlookers.become_one(value, other)
        return "", ""

    def _place(self, value: Value) -> Node:
        """The producer of a constant; for an input, the first node."""
        return self._graph.producer.get(value) or self._graph.body.nodes[0]

    def finish(self) -> Graph:
        """Carry out the merges and return the next graph, without the inputs that became unused."""
        reasons = {remark.subject: remark.because for remark in self.remarks if remark.kind == "passed"}
        for value, leader in self._leader.items():
            self.rewriter.replace(value, leader, reason=reasons[value])
        self._compute()
        removed = {*self._leader, *self._computed}
        for value in removed:
            if value in self._graph.producer:
                self.rewriter.erase(self._graph.producer[value], reason=reasons[value])
        after = self.rewriter.finish()
        if removed.isdisjoint(self._graph.bound):
            return after
        params = tuple(value for value in after.body.params if value not in removed)
        bound = {value: thing for value, thing in after.bound.items() if value not in removed}
        storages = {value: number for value, number in after.storages.items() if value not in removed}
        tied = {name: (*after.tied.get(name, ()), *self._tied.get(name, ())) for name in (*after.tied, *self._tied)}
        return replace(after, body=replace(after.body, params=params), bound=bound, storages=storages, tied=tied)

    def _compute(self) -> None:
        """Insert the nodes that compute a constant in its place, or before the first constant computed from it; move literals
        up that an earlier node is computed from."""
        position = self._graph.position
        places = {value: self._place(value) for value in self._computed}
        for value, (leader, _, _) in reversed(self._computed.items()):  # each before what it is computed from
            first = places.setdefault(leader, self._place(leader))
            places[leader] = min(first, places[value], key=position.__getitem__)
        for value, place in places.items():
            made = self._graph.producer.get(value)
            if made is not None and made is not place and value not in self._computed:
                self.rewriter.move_before(made, place, reason="a constant computed from it is defined here")
        for value, (leader, how, because) in self._computed.items():
            last = value
            for node in how.nodes(leader, value.type, self._graph.producer.get(value)):
                self.rewriter.insert_before(places[value], node, reason=because)
                last = node.output
            self.rewriter.replace(value, last, reason=because)
