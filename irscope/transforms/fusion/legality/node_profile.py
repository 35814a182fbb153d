"""Profiles the nodes of a program for grouping: eligibility, domain, and which operands are kernel arguments.

`eligibility` and `group_domain` judge one node; here nodes of one form (`irscope.analysis.shapes`) share a judgement where it
depends on nothing else. For views, and for ops that may return their operand, it depends on more: which memory is written, and
who uses the result, are properties of the program and not of the form.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from irscope.analysis.per_graph import once, shapes_of
from irscope.analysis.shapes import NodeSignature
from irscope.ir import NOT_CONSTANT, Graph, Node, Value, count_uses
from irscope.ops.registry import effect_of
from irscope.ops.view_steps import Num
from irscope.transforms.fusion.legality.eligibility import Eligibility
from irscope.transforms.fusion.legality.group_domain import Domain, Domains

__all__ = ["NodeProfiles", "NodeProfile", "profiles_of"]


class NodeProfile(NamedTuple):
    """The properties of a node as a group of its own."""

    domain: Domain
    arguments: tuple[int, ...]
    """The positions of the operands that are kernel arguments; known numbers are built into the kernel instead."""
    size: Num
    """The bytes of its first result."""


class NodeProfiles:
    """Computes the profiles of the nodes of one graph."""

    def __init__(self, rules: Eligibility) -> None:
        self.rules = rules
        self.domains = Domains(rules)
        self.readings: Mapping[Value, int] = count_uses(rules.graph)
        """How often each value is read in the whole program."""
        self._shapes = shapes_of(rules.graph)
        self._by_form: dict[NodeSignature, NodeProfile] = {}
        self.sizes: dict[Value, Num] = _Sizes(rules)
        """The bytes of each tensor."""

    def of(self, node: Node) -> NodeProfile | None:
        """Returns the node's profile; None when it cannot be in any group."""
        form = self._shapes.form(node)
        known = self._by_form.get(form) if form is not None else None
        if known is not None:
            return known
        if self.rules.refusal(node) is not None:
            return None
        is_known = self.rules.known
        arguments = tuple(i for i, value in enumerate(node.inputs) if is_known(value) is NOT_CONSTANT)
        profile = NodeProfile(self.domains.of(node), arguments, self.rules.size_in_bytes(node.outputs[0]))
        if form is not None and effect_of(node) == "pure" and not self.rules.joins(node):
            self._by_form[form] = profile
        return profile


def profiles_of(graph: Graph, *, exact: bool = False) -> NodeProfiles:
    """Returns the profiles of a graph, which are shared by all callers; `exact` as for `Eligibility`."""
    return once(graph, (NodeProfiles, exact), lambda: NodeProfiles(Eligibility(graph, exact=exact)))


class _Sizes(dict[Value, Num]):
    """The bytes of tensors, computed on first use."""

    def __init__(self, rules: Eligibility) -> None:
        self._rules = rules

    def __missing__(self, value: Value) -> Num:
        size = self[value] = self._rules.size_in_bytes(value)
        return size
