"""Words for values, nodes and places in the sentences of an alias db. Names are the printed ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

from irscope._base.words import listed
from irscope.analysis.alias.points_to import Label, PointsTo
from irscope.ir import Graph, Node, Value

__all__ = ["Words"]


class Words:
    """Words for the values, nodes and places of one graph and its points-to graph."""

    def __init__(self, graph: Graph, points_to: PointsTo) -> None:
        self.graph = graph
        self.points_to = points_to

    def name(self, value: Value) -> str:
        return self.graph.names.get(value, value.name or f"#{value.id}")

    def node_words(self, node: Node) -> str:
        """The op, and its results: `aten::mul (%c)`."""
        made = listed(node.outputs, lambda value: f"%{self.name(value)}")
        return f"{node.op} ({made})" if made else node.op

    def label_of(self, place: int) -> Label:
        """The label of a class: that of its first element that belongs to a value, or else of its first element."""
        labels = [self.points_to.labels[element] for element in self._members[place]]
        return next((label for label in labels if isinstance(label, Value)), labels[0])

    def next_labels(self, element: int) -> tuple[Label, ...]:
        """The labels that an element's edges lead to."""
        return tuple(self.points_to.labels[target] for target in self.points_to.edges.get(element, ()))

    @cached_property
    def _members(self) -> Mapping[int, Sequence[int]]:
        found: dict[int, list[int]] = {}
        for element, place in enumerate(self.points_to.class_of):
            found.setdefault(place, []).append(element)
        return found

    def describe_label(self, label: Label) -> str:
        """A value by name, a place in words."""
        return f"%{self.name(label)}" if isinstance(label, Value) else self.describe_place(label)

    def describe_place(self, label: Label) -> str:
        if isinstance(label, Value):
            return f"%{self.name(label)}"
        of = f"%{self.name(label.of)}" if label.of is not None else ""
        kind = label.name.replace("Tensor", "tensor")
        words = {
            "contents": f"what {of or 'a container from outside'} holds",
            "field": f"field {label.name} of {of}",
            "input": f"an input ({kind})",
            "argument": f"an argument ({kind})",
            "escaped": "memory that escaped to code outside the graph",
            "unknown": f"memory of unknown origin ({kind})",
            "attribute": f"the attribute {label.name.removeprefix('*.')}",
            "slot": f"the place of the attribute {label.name.removeprefix('*.')}",
            "objects": "what an object holds",
            "opaque": "all memory that escaped",
            "called": f"memory of {label.name}",
        }
        return words[label.kind]
