"""The map of a buffer: each value where its bytes are, hatched where it meets one that it is no view of."""

from __future__ import annotations

import irscope as irs
from irscope.display.pictures.buffer_svg import buffer_svg, layout_svg
from irscope.report.panes import buffer_view, buffers_with_views, layout_view

TEXT = """
graph(%x : Float(4, 8, strides=[8, 1])):
  %c0 : int = prim::Constant[value=0]()
  %c1 : int = prim::Constant[value=1]()
  %c4 : int = prim::Constant[value=4]()
  %c8 : int = prim::Constant[value=8]()
  %left : Tensor = aten::slice(%x, %c1, %c0, %c4, %c1)
  %right : Tensor = aten::slice(%x, %c1, %c4, %c8, %c1)
  %top : Tensor = aten::select(%x, %c0, %c0)
  return (%left, %right, %top)"""


def test_bytes_are_drawn_to_scale_and_meetings_are_marked() -> None:
    va = irs.ViewAliases(irs.parse(TEXT))
    assert [va.graph.names[root] for root in buffers_with_views(va)] == ["x"]
    view = buffer_view(va, "x")
    rows = {row["name"]: row for row in view["rows"]}
    assert view["bytes"] == 128
    assert rows["%x"]["runs"] == [[0, 1]]
    assert rows["%left"]["runs"] == [[0, 1 / 8], [2 / 8, 3 / 8], [4 / 8, 5 / 8], [6 / 8, 7 / 8]]
    assert rows["%right"]["shared"] == [[1 / 8, 2 / 8]]  # with %top, and not with %left
    assert rows["%x"]["shared"] == []
    assert buffer_svg(view).count("<g ") == 4


def test_axes_stand_in_memory_order() -> None:
    va = irs.ViewAliases(irs.parse(TEXT.replace("strides=[8, 1]", "strides=[1, 4]")))
    layout = va.layout("left")
    assert layout is not None
    axes = layout_view(layout)
    assert [(axis["axis"], axis["stride"], axis["flag"]) for axis in axes] == [(1, "4", "contiguous"), (0, "1", "contiguous")]
    assert layout_svg("%left", axes).index("axis 1: 4") < layout_svg("%left", axes).index("axis 0: 4")
