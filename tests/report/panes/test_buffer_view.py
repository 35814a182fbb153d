"""The map of a buffer: each value where its bytes are, hatched where it meets one that it is not a view of."""

from __future__ import annotations

import irscope as irs
from irscope.display.memory_pictures import buffer_svg, layout_svg
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


def test_what_repeats_too_often_to_be_seen_is_drawn_once() -> None:
    """Channels of an image, channels last: 8 of 48 bytes, then 8 of which the last 4 are those of a third value."""
    graph = irs.parse("""
        graph(%x : Float(32, 64, 12, strides=[768, 12, 1])):
          %axis : int = prim::Constant[value=2]()
          %0 : int = prim::Constant[value=0]()
          %2 : int = prim::Constant[value=2]()
          %3 : int = prim::Constant[value=3]()
          %4 : int = prim::Constant[value=4]()
          %8 : int = prim::Constant[value=8]()
          %1 : int = prim::Constant[value=1]()
          %a : Tensor = aten::slice(%x, %axis, %0, %2, %1)
          %b : Tensor = aten::slice(%x, %axis, %2, %4, %1)
          %c : Tensor = aten::slice(%x, %axis, %3, %8, %1)
          return (%a, %b, %c)""")
    view = buffer_view(irs.ViewAliases(graph), "x")
    assert (view["bytes"], view["window"]) == (98304, 48)
    whole, a, b, c = view["rows"]
    assert whole["runs"] == [[0.0, 1.0]]
    assert [[round(48 * at) for at in run] for row in (a, b, c) for run in row["runs"]] == [[0, 8], [8, 16], [12, 32]]
    assert not a["shared"] and not whole["shared"]
    assert [[round(48 * at) for at in run] for row in (b, c) for run in row["shared"]] == [[12, 16]] * 2
    assert "2,048 such parts" in buffer_svg(view)
