"""The walk is linear in the program: ten times the views take about ten times as long."""

from __future__ import annotations

import random
from math import log10
from time import process_time

import pytest

import irscope as irs
from irscope.ir import Graph


def program(views: int) -> Graph:
    rng = random.Random(views)
    lines = [f"  %c{n} : int = prim::Constant[value={n}]()" for n in range(9)]
    shapes = [[4, 48], [4, 6, 8], [24, 8], [192], [2, 2, 48]]
    lines += [f"  %s{n} : int[] = prim::Constant[value={shape}]()" for n, shape in enumerate(shapes)]
    here = "x"
    for index in range(views):
        if index % 3 == 0:
            lines.append(f"  %v{index} : Tensor = aten::reshape(%{here}, %s{rng.randrange(5)})")
            here = f"v{index}"
        elif index % 3 == 1:
            lines.append(f"  %v{index} : Tensor = aten::slice(%x, %c1, %c{rng.randrange(3)}, %c{rng.randrange(3, 7)}, %c1)")
        else:
            lines.append(f"  %v{index} : Tensor = aten::transpose(%v{index - 1}, %c0, %c{rng.randrange(3)})")
    return irs.parse("\n".join(["graph(%x : Float(4, 6, 8, strides=[48, 8, 1])):", *lines, f"  return (%{here})"]))


def seconds(views: int) -> float:
    best = float("inf")
    for _ in range(3):
        graph = program(views)
        start = process_time()
        irs.ViewAliases(graph)
        best = min(best, process_time() - start)
    return best


@pytest.mark.long
def test_a_hundred_thousand_views() -> None:
    small, large = seconds(10_000), seconds(100_000)
    exponent = log10(large / small)
    print(f"{small:.2f} s, {large:.2f} s, exponent {exponent:.2f}")
    assert exponent < 1.15
