"""The layout and buffer of each tensor, and the nodes that only copy one."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import cached_property
from typing import Final

from irscope._base.escaping import shortened
from irscope.analysis.memory import memory_plan
from irscope.analysis.views import ByteSet, ViewAliases, as_demand
from irscope.errors import UnknownName
from irscope.ir import GROUPS, Graph, Value
from irscope.ops.registry import category_of
from irscope.report.panes.memory.buffer_view import buffer_view, buffers_with_views, layout_view
from irscope.report.view_models import AssumedLayout, BufferView, CopyView, LayoutView
from irscope.report.words import byte_count

__all__ = ["LayoutViews"]

_COPYING: Final = ("aten::contiguous", "aten::clone", "aten::to", "aten::_to_copy", "aten::reshape", "aten::flatten", "aten::unflatten")
"""Ops that return their operand, in new memory if needed."""
_FORMATS: Final = {"rows": range(2, 64), "columns": range(2, 4), "channels_last": (4, 5)}
"""Layouts to ask about for an argument, with the ranks they apply to."""
_FORMAT_WORDS: Final = {"rows": "row by row", "columns": "column by column", "channels_last": "channels last"}
_MOST_BUFFERS: Final = 12
_MOST_COPIES: Final = 500


class LayoutViews:
    """The layouts of one graph, computed at the first request.

    >>> import irscope as irs
    >>> g = irs.parse('''graph(%x : Float(2, 3, strides=[3, 1], device=cpu)):
    ...   %t : Float(3, 2, strides=[1, 3], device=cpu) = aten::t(%x)
    ...   %c : Float(6, strides=[1], device=cpu) = aten::reshape(%t, %n)
    ...   return (%c)'''.replace("  %c :", "  %n : int[] = prim::Constant[value=[6]]()\\n  %c :"))
    >>> views = LayoutViews(g)
    >>> views.layout(g.value("t"))["axes"][0], [copy["label"] for copy in views.copies()]
    ({'axis': 1, 'extent': '2', 'stride': '3', 'flag': 'contiguous'}, ['%c = reshape'])
    """

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._buffers: dict[Value, BufferView | None] = {}

    @cached_property
    def _views(self) -> ViewAliases:
        return ViewAliases(self._graph)

    @cached_property
    def _tensors(self) -> dict[int, Value]:
        return {value.id: value for value in self._views.tensors()}

    @cached_property
    def _holding(self) -> frozenset[Value]:
        """Values whose buffers hold views."""
        views = self._views
        found = (views.root(value) for value in self._tensors.values() if views.kind(value) == "view")
        return frozenset(root for root in found if root is not None)

    def layout(self, value: Value) -> LayoutView:
        """The layout of a tensor. Raises UnknownName for other values."""
        views = self._views
        if value.id not in self._tensors:
            raise UnknownName(f"%{self._graph.names.get(value, value.name)} is not a tensor", hint="tensors have layouts")
        layout, root = views.layout(value), views.root(value)
        return LayoutView(
            id=value.id, kind=views.kind(value), decided=views.is_decided(value), because=shortened(views.explain(value).because, 600),
            layout="" if layout is None else str(layout), axes=[] if layout is None else layout_view(layout),
            root=root.id if root is not None else 0, buffer=self._buffer(root), others=self._others(value),
        )  # fmt: skip

    def _others(self, value: Value) -> list[str]:
        """The other layouts that an argument could have."""
        layout = self._views.layout(value)
        if value not in self._graph.free_inputs or layout is None:
            return []
        rank = len(layout.shape)
        return [name for name, ranks in _FORMATS.items() if rank in ranks and not as_demand(name, rank).is_met(layout)]

    def assumed(self, value: Value, layout: str) -> AssumedLayout:
        """The effect of an argument in the layout `rows`, `columns` or `channels_last`: the nodes that copy then, and the planned peak."""
        graph, name = self._graph, f"%{self._graph.names[value]}"
        then = ViewAliases(graph, layouts={value: layout})
        now_copied = {copy["value"]: copy for copy in self._copies(graph, self._views)}
        then_copied = {copy["value"]: copy for copy in self._copies(then.graph, then)}
        is_view = {value.id: then.is_decided(value) and then.kind(value) == "view" for value in then.tensors()}
        views = [copy for id, copy in now_copied.items() if is_view.get(id)]
        copies = [copy for id, copy in then_copied.items() if id not in now_copied]
        open_ = sum(id not in then_copied and not is_view.get(id) for id in now_copied)
        would, do = _amount(then_copied.values(), "would copy"), _amount(now_copied.values(), "copying")
        undecided = f", and whether {open_} more would copy is known only at run time" if open_ else ""
        sentence = (
            f"with {name} {_FORMAT_WORDS[layout]}, {would} (now {do}){undecided}; "
            f"the peak by plan would be {byte_count(memory_plan(then.graph).peak)} (now {byte_count(memory_plan(graph).peak)})"
        )
        return AssumedLayout(told=sentence, views=views[:_MOST_COPIES], copies=copies[:_MOST_COPIES])

    def _buffer(self, root: Value | None) -> BufferView | None:
        if root is None or root not in self._holding:
            return None
        if root not in self._buffers:
            found = buffer_view(self._views, root)
            self._buffers[root] = found if found["bytes"] else None
        return self._buffers[root]

    def stored(self) -> tuple[dict[int, LayoutView], dict[int, BufferView]]:
        """Every layout, without its buffer, and the buffers with the most views."""
        largest = {root.id: buffer_view(self._views, root) for root in buffers_with_views(self._views, _MOST_BUFFERS)}
        self._buffers.update(dict.fromkeys(self._holding))
        return {id: self.layout(value) for id, value in self._tensors.items()}, largest

    def copies(self) -> list[CopyView]:
        """The nodes that copy a tensor in every run, most bytes first; kernels copy as part of other work and are left out."""
        found = sorted(self._copies(self._graph, self._views), key=lambda copy: -copy["bytes"])
        return found[:_MOST_COPIES]

    def _copies(self, graph: Graph, views: ViewAliases) -> Iterator[CopyView]:
        for node in graph.nodes():
            if len(node.outputs) != 1 or node.output.id not in self._tensors:
                continue
            if node.op not in _COPYING and category_of(node) != "view":
                continue
            value, owner = node.output, graph.owner.get(graph.block_of[node])
            if views.kind(value) != "copy" or not views.is_decided(value) or (owner is not None and owner.op in GROUPS):
                continue
            covered = views.bytes(value)
            yield CopyView(
                id=node.id, value=value.id, label=f"%{graph.names[value]} = {node.op.partition('::')[2]}",
                bytes=covered.size if isinstance(covered, ByteSet) and covered.size is not None else -1,
                because=shortened(views.explain(value).because, 400),
            )  # fmt: skip


def _amount(copies: Collection[CopyView], verb: str) -> str:
    """A sentence with the number of copying nodes and their bytes."""
    size = sum(max(copy["bytes"], 0) for copy in copies)
    return f"{len(copies) or 'no'} node{'s' * (len(copies) != 1)} {verb}{f' {byte_count(size)}' if copies else ''}"
