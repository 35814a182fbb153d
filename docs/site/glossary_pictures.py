"""Draws the pictures of docs/glossary.md, with the tool: `python docs/site/glossary_pictures.py`."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import irscope as irs
from irscope.display.memory_pictures import buffer_svg, memory_svg
from irscope.report.panes import buffer_view, buffers_with_views, memory_view

IMAGES: Final = Path(__file__).resolve().parents[1] / "images"

PROGRAM: Final = """graph(%x : Float(4, 8, strides=[8, 1]), %w : Float(8, 8, strides=[8, 1])):
  %zero : int = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %two : int = prim::Constant[value=2]()
  %copy : Float(4, 8, strides=[8, 1]) = aten::mul(%x, %two)
  %top : Float(2, 8, strides=[8, 1]) = aten::slice(%copy, %zero, %zero, %two, %one)
  %written : Float(2, 8, strides=[8, 1]) = aten::relu_(%top)
  %mixed : Float(4, 8, strides=[8, 1]) = aten::matmul(%copy, %w)
  %scaled : Float(4, 8, strides=[8, 1]) = aten::mul(%mixed, %two)
  %result : Float(4, 8, strides=[8, 1]) = aten::tanh(%scaled)
  return (%result)"""

LAYERS: Final = """graph(%x : Float(4, 8, strides=[8, 1]), %w : Float(8, 8, strides=[8, 1])):
  %half : float = prim::Constant[value=0.5]()
  %tenth : float = prim::Constant[value=0.1]()
  %a : Float(4, 8, strides=[8, 1]) = aten::mul(%x, %half)
  %b : Float(4, 8, strides=[8, 1]) = aten::tanh(%a)
  %c : Float(4, 8, strides=[8, 1]) = aten::matmul(%b, %w)
  %d : Float(4, 8, strides=[8, 1]) = aten::mul(%c, %tenth)
  %e : Float(4, 8, strides=[8, 1]) = aten::tanh(%d)
  return (%e)"""


def main() -> None:
    IMAGES.mkdir(exist_ok=True)
    graph = irs.parse(PROGRAM)
    graph.to_svg(IMAGES / "graph.svg")
    irs.AliasDb(graph).to_svg(IMAGES / "points-to.svg")
    views = irs.ViewAliases(graph)
    root = next(root for root in buffers_with_views(views))
    (IMAGES / "buffer.svg").write_text(buffer_svg(buffer_view(views, root)), encoding="utf-8")
    (IMAGES / "memory-plan.svg").write_text(memory_svg(memory_view(irs.memory_plan(graph))), encoding="utf-8")
    irs.fuse(graph).to_svg(IMAGES / "fusion.svg")
    irs.dedup(irs.fuse(irs.parse(LAYERS)), relation="constants").to_svg(IMAGES / "classes.svg")


if __name__ == "__main__":
    main()
