"""Which modules of a program repeat each other: the layers of a transformer, the blocks of a residual network.

Two modules are alike if their nodes, sorted by age (which is program order, whatever passes moved), correspond one to one:
same op, same block around them, operands that are corresponding nodes, the same outsider at the same places, or constants
at the same places. That correspondence is the proof; nothing rests on hashes alone, since the encodings are compared as a
whole. Fusion groups are looked through: a layer whose first op went into a group with the layer before is still a layer.
Constants and types are kept apart, for they may differ between members; those places are counted and told.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter

from irscope.ir import Graph, Node, Type, Value
from irscope.report.boxes.module_calls import paths_of
from irscope.report.boxes.quiet_nodes import CONSTANT

__all__ = ["FEWEST", "ModuleText", "Run", "runs_of", "told_range"]

FEWEST = 3
"""Members of a run that is worth a box."""
_NUMBER = re.compile(r"\d+")


Encoding = tuple[tuple[object, ...], tuple[object, ...]]
"""What makes modules alike, and what may differ between those that are, place by place."""


@dataclass(frozen=True)
class Run:
    """Sibling modules that are alike."""

    members: tuple[int, ...]
    """Positions among the siblings."""
    holes: int
    """In how many places constants or types are not the same in all of them."""


class ModuleText:
    """Encodes the nodes of modules, given by their paths, so that equal encodings mean alike modules.

    `scopes` takes the place of the nodes' own, and says in its order how nodes of alike modules correspond.
    """

    def __init__(self, graph: Graph, scopes: Mapping[Node, str] | None = None) -> None:
        self._graph = graph
        self._scopes = scopes or None
        self._age = {node: age for age, node in enumerate(scopes)} if scopes else None
        self._meant: dict[Value, Value] = {}
        """For a value at the border of a group, the same value on the other side, nearer to its maker."""
        self._owners: dict[Node, Node] = {}
        """The If or Loop that each node in one stands in."""
        self._types: dict[int, tuple[Type, int]] = {}
        self._numbers: dict[str, int] = {}

    def _nodes(self) -> Iterator[Node]:
        owners = self._owners
        for node in self._graph.nodes():
            if node.blocks:
                is_group = node.op.endswith("Group")
                owner = owners.get(node) if is_group else node
                if owner is not None:
                    owners.update((inner, owner) for block in node.blocks for inner in block.nodes)
                if is_group:
                    block = node.blocks[0]
                    self._meant.update(zip(block.params, node.inputs, strict=True))
                    self._meant.update(zip(node.outputs, block.returns, strict=True))
                    continue
            if node.op != CONSTANT and self._scope(node):
                yield node

    def _scope(self, node: Node) -> str:
        return node.scope if self._scopes is None else self._scopes.get(node, "")

    def by_path(self) -> dict[str, list[Node]]:
        """The nodes of each module, those of the modules in it too; they correspond in this order."""
        age = self._age
        found: dict[str, list[Node]] = {}
        around: dict[str, list[list[Node]]] = {}
        for node in sorted(self._nodes(), key=attrgetter("id") if age is None else age.__getitem__):
            scope = self._scope(node)
            lists = around.get(scope)
            if lists is None:
                lists = around[scope] = [found.setdefault(path, []) for path in paths_of(scope)]
            for nodes in lists:
                nodes.append(node)
        return found

    def encoded(self, nodes: Sequence[Node]) -> Encoding:
        """What makes modules alike, and what may differ between those that are, place by place."""
        place = {node: k for k, node in enumerate(nodes)}
        owners, meant, producer, types = self._owners, self._meant, self._graph.producer, self._types
        outsiders: dict[Value, int] = {}
        shape: list[object] = []
        holes: list[object] = []
        for node in nodes:
            inputs, outputs = node.inputs, node.outputs
            shape += node.op, place.get(owners[node], -1) if node in owners else -1, len(inputs)
            for value in inputs:
                while value in meant:
                    value = meant[value]
                maker = producer.get(value)
                at = None if maker is None else place.get(maker)
                if at is not None and maker is not None:
                    shape.append((at, 0 if len(maker.outputs) == 1 else maker.outputs.index(value)))
                elif maker is not None and maker.op == CONSTANT:
                    shape.append("c")
                    holes.append(self._constant(maker))
                else:
                    shape.append(~outsiders.setdefault(value, len(outsiders)))
            for value in outputs:
                known = types.get(id(value.type))
                holes.append(self._type(value.type) if known is None else known[1])
            if node.attrs or len(outputs) != 1:
                shape.append(~len(outputs) if node.attrs else len(outputs))
            if node.attrs:
                holes.append(self._constant(node))
        return tuple(shape), tuple(holes)

    def maker_side(self, value: Value) -> Value:
        """A value at the border of a group as it is called nearest to its maker."""
        while value in self._meant:
            value = self._meant[value]
        return value

    def _constant(self, node: Node) -> int:
        return self._number(repr(sorted(node.attrs.items(), key=lambda item: item[0]))[:400])

    def _type(self, type: Type) -> int:
        known = self._types.get(id(type))
        if known is None:
            known = self._types[id(type)] = type, self._number(str(type))
        return known[1]

    def _number(self, text: str) -> int:
        return self._numbers.setdefault(text, len(self._numbers))


def runs_of(paths: Sequence[str], nodes: Mapping[str, Sequence[Node]], text: ModuleText) -> list[Run]:
    """The runs among sibling modules, which are given by their paths in program order; each path once."""
    runs: list[Run] = []
    start = 0
    while start < len(paths):
        end = start + 1
        pattern, count = _NUMBER.sub("#", paths[start]), len(nodes.get(paths[start], ()))
        while end < len(paths) and _NUMBER.sub("#", paths[end]) == pattern and len(nodes.get(paths[end], ())) == count:
            end += 1
        if count and end - start >= FEWEST:
            runs += _alike(range(start, end), [text.encoded(nodes[path]) for path in paths[start:end]])
        start = end
    return runs


def _alike(places: range, texts: Sequence[Encoding]) -> Iterator[Run]:
    first = 0
    for k in range(1, len(texts) + 1):
        if k < len(texts) and texts[k][0] == texts[first][0]:
            continue
        if k - first >= FEWEST:
            holes = [text[1] for text in texts[first:k]]
            differ = sum(len(set(column)) > 1 for column in zip(*holes, strict=True))
            yield Run(tuple(places[first:k]), differ)
        first = k


def told_range(paths: Sequence[str]) -> str:
    """The paths of a run in one label.

    >>> told_range(["net.layers.0", "net.layers.1", "net.layers.2"])
    'net.layers.0–2'
    """
    head, _, last = paths[-1].rpartition(".")
    if last.isdigit() and paths[0].rpartition(".")[0] == head:
        return f"{paths[0]}–{last}"
    return f"{paths[0]} … {last or paths[-1]}"
