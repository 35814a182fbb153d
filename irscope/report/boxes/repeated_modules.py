"""Finds repeated modules of a program: the layers of a transformer, the blocks of a residual network.

Two modules are equal if their nodes, sorted by age (program order, whatever passes moved), correspond one to one: same op,
same enclosing block, and operands that are corresponding nodes, the same outside value at the same positions, or constants at
the same positions. That correspondence is the proof: encodings are compared in full, not only by hash. Fusion groups are
transparent: a layer whose first op was fused with the previous layer is still a layer. Constants and types are encoded
separately, as they may differ between members; the differing positions are counted and reported.
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
"""The fewest members of a run that gets a box."""
_NUMBER = re.compile(r"\d+")


Encoding = tuple[tuple[object, ...], tuple[object, ...]]
"""The part that equal modules share, and the part that may differ between them, position by position."""


@dataclass(frozen=True)
class Run:
    """Equal sibling modules."""

    members: tuple[int, ...]
    """Positions among the siblings."""
    holes: int
    """The number of positions where constants or types differ between them."""


class ModuleText:
    """Encodes the nodes of modules, given by path, such that equal encodings mean equal modules.

    `scopes` replaces the nodes' own scopes, and its order says how nodes of equal modules correspond.
    """

    def __init__(self, graph: Graph, scopes: Mapping[Node, str] | None = None) -> None:
        self._graph = graph
        self._scopes = scopes or None
        self._age = {node: age for age, node in enumerate(scopes)} if scopes else None
        self._meant: dict[Value, Value] = {}
        """For a value at the border of a group, the same value on the side of its producer."""
        self._owners: dict[Node, Node] = {}
        """The If or Loop around each node that is inside one."""
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
        """The nodes of each module, including those of its submodules; nodes of equal modules correspond by position."""
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
        """The value, at the border of a group, on the side of its producer."""
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
    """The runs among sibling modules, given by path in program order, each path once."""
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
    """One label for the paths of a run.

    >>> told_range(["net.layers.0", "net.layers.1", "net.layers.2"])
    'net.layers.0–2'
    """
    head, _, last = paths[-1].rpartition(".")
    if last.isdigit() and paths[0].rpartition(".")[0] == head:
        return f"{paths[0]}–{last}"
    return f"{paths[0]} … {last or paths[-1]}"
