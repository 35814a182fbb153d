"""What each node of a program brings to a group: whether it is fit for one, its domain, and which operands are arguments.

`eligibility` and `group_domain` judge one node; here nodes of one form (`irscope.analysis.shapes`) are judged together, where the
judgement depends on nothing else. It does for views, and for ops that may give back their operand: what is written,
and who reads the result, is the program's and not the form's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from irscope.analysis.per_graph import once, shapes_of
from irscope.analysis.shapes import NodeSignature
from irscope.ir import NOT_CONSTANT, Graph, Node, Value, count_uses
from irscope.ops.registry import effect_of
from irscope.transforms.fusion.legality.eligibility import Eligibility
from irscope.transforms.fusion.legality.group_domain import Domain, Domains

__all__ = ["NodeProfiles", "NodeProfile", "profiles_of"]


class NodeProfile(NamedTuple):
    """A node as a group of its own."""

    domain: Domain
    arguments: tuple[int, ...]
    """The operands that are not known numbers, which a kernel has inside."""
    size: int
    """The bytes of its first result; 0 when that is not known."""


class NodeProfiles:
    """Judges the nodes of one graph."""

    def __init__(self, rules: Eligibility) -> None:
        self.rules = rules
        self.domains = Domains(rules)
        self.readings: Mapping[Value, int] = count_uses(rules.graph)
        """How often each value is read in the whole program."""
        self._shapes = shapes_of(rules.graph)
        self._parts: dict[NodeSignature, NodeProfile] = {}
        self.sizes: dict[Value, int] = _Sizes(rules)
        """The bytes of each tensor; 0 when that is not known."""

    def part(self, node: Node) -> NodeProfile | None:
        """What the node brings; None when it cannot be in any group."""
        form = self._shapes.form(node)
        known = self._parts.get(form) if form is not None else None
        if known is not None:
            return known
        if self.rules.refusal(node) is not None:
            return None
        is_known = self.rules.known
        arguments = tuple(i for i, value in enumerate(node.inputs) if is_known(value) is NOT_CONSTANT)
        part = NodeProfile(self.domains.of(node), arguments, self.rules.size_in_bytes(node.outputs[0]))
        if form is not None and effect_of(node) == "pure" and not self.rules.joins(node):
            self._parts[form] = part
        return part


def profiles_of(graph: Graph, *, exact: bool = False) -> NodeProfiles:
    """What judges the nodes of a graph, with what it found out so far; `exact` as for `Eligibility`."""
    return once(graph, (NodeProfiles, exact), lambda: NodeProfiles(Eligibility(graph, exact=exact)))


class _Sizes(dict[Value, int]):
    """The bytes of tensors; 0 when that is not known."""

    def __init__(self, rules: Eligibility) -> None:
        self._rules = rules

    def __missing__(self, value: Value) -> int:
        size = self[value] = self._rules.size_in_bytes(value)
        return size
