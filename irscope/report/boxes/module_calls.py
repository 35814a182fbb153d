"""Assigns each node to a call of a module of the user's model, by its scope and its operands.

A module that is called again on its own output gets a box per call: in one box the calls would form a cycle. A node may join a
call if all its operands were produced inside it or before it began. A fusion group is placed where its last node is, and counts
as part of every module that one of its nodes is from, so fusion across modules does not split them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set

from irscope.ir import Node

__all__ = ["DEEPEST", "ModuleCalls", "paths_of", "scope_of"]

DEEPEST = 100
"""The deepest nesting of modules that gets boxes."""


def scope_of(node: Node) -> str:
    """The scope of a node's box; for a group, that of its last node that has one."""
    if node.blocks and node.op.endswith("Group"):
        for inner in reversed(node.blocks[0].nodes):
            if inner.scope and inner.op != "prim::Constant":
                return inner.scope
    return node.scope


def paths_of(scope: str) -> list[str]:
    """The paths of a scope and its enclosing modules, outermost first.

    >>> paths_of("net.layers.0")
    ['net', 'net.layers', 'net.layers.0']
    """
    parts = scope.split(".", DEEPEST) if scope else []
    return [".".join(parts[: k + 1]) for k in range(len(parts))]


class ModuleCalls:
    """Finds the box of each node's module, and creates one with `make(path, around)` when a call begins."""

    def __init__(self, make: Callable[[str, int], int], parent: list[int]) -> None:
        self._make = make
        self._parent = parent
        """The parent of each box, by number; grows as boxes are created, with increasing numbers."""
        self._latest: dict[tuple[int, str], int] = {}
        self._paths: dict[str, list[str]] = {}
        self._spans: dict[int, set[str]] = {}
        """The scopes of groups whose nodes are from several modules."""
        self._paths_spanned: dict[int, set[str]] = {}
        self._path_of: dict[int, str] = {}
        self._before = "", -1, -1
        """The previous scope, with its outermost and innermost call."""

    def box_of(self, scope: str, sources: Iterable[int]) -> int:
        """The box of a scope for a node that uses values of the boxes `sources`; -1 for the top."""
        box = -1
        if not scope:
            return box
        read = list(sources)
        before, outermost, innermost = self._before
        if scope == before and all(source < outermost or self._parent[source] == innermost for source in read):
            return innermost  # most nodes follow a node of the same module and use its values
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
        """Record the modules that the nodes of a group are from."""
        scopes = {inner.scope for inner in group.blocks[0].nodes}
        if len(scopes) > 1:
            self._spans[box] = scopes

    def _spanned(self, box: int) -> Set[str]:
        """The modules that the nodes of a group are from, with their enclosing modules."""
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

