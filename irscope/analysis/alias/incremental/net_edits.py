"""The net effect of a pass's edits: nodes removed and added, and values whose users now use another value."""

from __future__ import annotations

from collections.abc import Iterable

from irscope.ir import Created, Edit, Erased, Merged, Node, Replaced, Value

__all__ = ["NetEdits"]


class NetEdits:
    """The net effect of edits in order: a node that is created and erased again does not count.

    >>> from irscope.ir.rewriter import Created, Erased
    >>> node = Node(1, "aten::neg")
    >>> list(NetEdits([Created(node, "tried"), Erased(node, "no use")]).added)
    []
    """

    def __init__(self, edits: Iterable[Edit]) -> None:
        self.removed: dict[Node, None] = {}
        self.added: dict[Node, None] = {}
        self.replaced: dict[Value, Value] = {}
        for edit in edits:
            self._note(edit)

    def _note(self, edit: Edit) -> None:
        kind = edit.__class__  # a `match` would cost more than all the rest here
        if kind is Merged:
            for node in edit.nodes:  # type: ignore[union-attr]
                self._remove(node)
            self.added[edit.group] = None  # type: ignore[union-attr]
        elif kind is Erased:
            self._remove(edit.node)  # type: ignore[union-attr]
        elif kind is Created:
            node = edit.node  # type: ignore[union-attr]
            if node in self.removed:
                del self.removed[node]
            else:
                self.added[node] = None
        elif kind is Replaced:
            self.replaced[self.resolve(edit.old)] = self.resolve(edit.new)  # type: ignore[union-attr]

    def _remove(self, node: Node) -> None:
        if node in self.added:
            del self.added[node]
        else:
            self.removed[node] = None

    def resolve(self, value: Value) -> Value:
        """The value that users of a value use now."""
        while (new := self.replaced.get(value)) is not None:
            value = new
        return value
