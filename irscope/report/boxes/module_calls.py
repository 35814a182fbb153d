"""Which call of which module of the user's model a node is from: by its scope, and by what it reads.

A module that is called again on what came out of it gets a box for each call: in one box the calls would be a cycle. A node
may join a call if all it reads was made inside it or before it began. A fusion group stands where its last node is, and
counts as a part of every module that one of its nodes is from: fusing over the border of two modules takes neither apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set

from irscope.ir import Node

__all__ = ["DEEPEST", "ModuleCalls", "paths_of", "scope_of"]

DEEPEST = 100
"""Modules inside each other that get boxes of their own."""


def scope_of(node: Node) -> str:
    """The scope that a node's box stands in: a group's is that of its last node that has one."""
    if node.blocks and node.op.endswith("Group"):
        for inner in reversed(node.blocks[0].nodes):
            if inner.scope and inner.op != "prim::Constant":
                return inner.scope
    return node.scope


def paths_of(scope: str) -> list[str]:
    """The paths of a scope and of the modules around it, the outermost first.

    >>> paths_of("net.layers.0")
    ['net', 'net.layers', 'net.layers.0']
    """
    parts = scope.split(".", DEEPEST) if scope else []
    return [".".join(parts[: k + 1]) for k in range(len(parts))]


class ModuleCalls:
    """Finds the box of each node's module, and asks for a new one (`make(path, around)`) when a call begins."""

    def __init__(self, make: Callable[[str, int], int], parent: list[int]) -> None:
        self._make = make
        self._parent = parent
        """The box around each box, by number; it grows while boxes are made, and their numbers count up."""
        self._latest: dict[tuple[int, str], int] = {}
        self._paths: dict[str, list[str]] = {}
        self._spans: dict[int, set[str]] = {}
        """The scopes of the nodes of groups that are from several modules."""
        self._paths_spanned: dict[int, set[str]] = {}
        self._path_of: dict[int, str] = {}
        self._before = "", -1, -1
        """The scope that was asked about before, with the outermost and the innermost call that it is in."""

    def box_of(self, scope: str, sources: Iterable[int]) -> int:
        """The box of a scope for a node that reads what the boxes `sources` make; -1 for the top."""
        box = -1
        if not scope:
            return box
        read = list(sources)
        before, outermost, innermost = self._before
        if scope == before and all(source < outermost or self._parent[source] == innermost for source in read):
            return innermost  # most nodes follow one of their own module, and read what was made in it
        latest, newest = self._latest, max(read, default=-1)
        for path in self._paths_of(scope):
            call = latest.get((box, path))
            if call is None or not (newest < call or all(source < call or self._is_in(source, call) for source in read)):
                call = latest[box, path] = self._make(path, box)
                self._path_of[call] = path
            outermost = call if box < 0 else outermost
            box = call
        self._before = scope, outermost, box
        return box

    def _paths_of(self, scope: str) -> list[str]:
        paths = self._paths.get(scope)
        if paths is None:
            paths = self._paths[scope] = paths_of(scope)
        return paths

    def spans(self, box: int, group: Node) -> None:
        """Note from which modules the nodes of a group are."""
        scopes = {inner.scope for inner in group.blocks[0].nodes}
        if len(scopes) > 1:
            self._spans[box] = scopes

    def _spanned(self, box: int) -> Set[str]:
        """The modules that the nodes of a group are from, and those around them."""
        found = self._paths_spanned.get(box)
        if found is None:
            found = self._paths_spanned[box] = {path for scope in self._spans[box] for path in self._paths_of(scope)}
        return found

    def _is_in(self, box: int, call: int) -> bool:
        if box in self._spans and self._path_of[call] in self._spanned(box):
            return True
        parent = self._parent
        while box > call:
            box = parent[box]
        return box == call

