"""Finds the tensors that a caller gets from a program: its results, and those in tuples, lists and dictionaries among them.

A pass that changes layouts asks here which values are visible outside. A tuple cannot change, and an unwritten list or
dictionary does not: the caller finds in it exactly the values that it was built from. For any other container, and for
arguments that the program writes, only the alias db says what may be in it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from irscope.analysis.alias import AliasDb
from irscope.analysis.views import ViewAliases
from irscope.ir import Graph, Node, TensorType, Value
from irscope.ops.traits import LAYOUT_READERS, PACKS

__all__ = ["Results", "layout_reader", "may_share_more", "results_of", "shared_results"]


@dataclass(frozen=True, slots=True)
class Results:
    """The tensors that a caller gets, in order, and the containers that may hold further ones."""

    tensors: tuple[Value, ...]
    makers: frozenset[Node]
    """The nodes that build tuples, lists and dictionaries of them."""
    containers: tuple[Value, ...]
    """Results, and written arguments, that may hold tensors of the program, without it being known which."""

    def hidden(self, values: Iterable[Value], db: AliasDb) -> Value | None:
        """The first of these values that the caller may find in one of the containers."""
        if not self.containers:
            return None
        return next((value for value in values if any(db.may_contain_alias(value, held) for held in self.containers)), None)


def results_of(graph: Graph, db: AliasDb) -> Results:
    """Returns the tensors that a caller gets, and the containers that may hold further ones.
    >>> import irscope as irs
    >>> g = irs.parse('''graph(%x : Float(4)):
    ...   %a : Float(4) = aten::neg(%x)
    ...   %pair : (Float(4), Float(4)) = prim::TupleConstruct(%a, %x)
    ...   return (%pair)''')
    >>> results_of(g, irs.AliasDb(g)).tensors
    (%a, %x)
    """
    tensors, makers, containers = list[Value](), set[Node](), list[Value]()
    todo = list(reversed(graph.outputs))
    while todo:
        value = todo.pop()
        node = graph.producer.get(value)
        if isinstance(value.type, TensorType):
            tensors.append(value)
        elif node is not None and node.op in PACKS and graph.block_of[node] is graph.body and not db.is_written(value):
            if node not in makers:
                makers.add(node)
                todo.extend(reversed(node.inputs))
        elif db.is_memory(value):
            containers.append(value)
    held = (value for value in graph.inputs if not isinstance(value.type, TensorType) and db.is_memory(value))
    containers += [value for value in held if db.is_written(value)]
    return Results(tuple(tensors), frozenset(makers), tuple(dict.fromkeys(containers)))


def shared_results(views: ViewAliases, tensors: Iterable[Value]) -> list[tuple[int, bool]]:
    """For each tensor that the caller gets, the index of the first one in the same buffer, and whether that buffer existed before
    the run."""
    first: dict[object, int] = {}
    found: list[tuple[int, bool]] = []
    for index, value in enumerate(tensors):
        placement = views.placement(value)
        found.append((first.setdefault(placement.root, index), placement.origin != "made"))
    return found


def may_share_more(views: ViewAliases, db: AliasDb, tensors: Iterable[Value], copied: Iterable[Value]) -> Value | None:
    """The first `copied` tensor that may share memory with another that the caller gets, or with an argument, where this is not
    decided before the run."""
    found = list(dict.fromkeys(tensors))
    unknown = [value for value in found if views.decided_root(value) is None]
    given = [value for value in views.graph.inputs if db.is_memory(value)]
    for value in copied:
        others = [*found, *given] if value in unknown else unknown
        if any(other is not value and db.may_alias(value, other) for other in others):
            return value
    return None


def layout_reader(graph: Graph, db: AliasDb, values: Iterable[Value]) -> Node | None:
    """The first node whose result depends on the strides of one of these values, or of a possible view of it."""
    readers = [node for node in graph.nodes() if node.op in LAYOUT_READERS]
    found = list(values) if readers else []
    return next((node for node in readers if any(db.may_alias(node.inputs[0], value) for value in found)), None)
