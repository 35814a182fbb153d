"""How fast programs are read and written, beside torch's own C++ on the same text.

Run it: `python tests/benchmarks/bench_ir.py`. It prints a table and asserts nothing: clocks on shared machines lie.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from irscope.ir.core import Graph
from irscope.ir.invariants import verify
from irscope.ir.structural import same_structure
from irscope.ir.text.parser import parse
from irscope.ir.text.printer import print_graph
from tests.benchmarks.harness import Growth, milliseconds

SIZES = (1_000, 10_000, 100_000)


def straight(size: int) -> str:
    """Pointwise ops on refined tensors, as a traced model has."""
    lines = ["graph(%x.1 : Float(2, 3, strides=[3, 1], requires_grad=0, device=cpu), %y.1 : Tensor):"]
    lines += ["  %1 : int = prim::Constant[value=1]()"]
    previous = "x.1"
    for index in range(2, size):
        lines.append(f"  %{index} : Float(2, 3, strides=[3, 1], requires_grad=0, device=cpu) = aten::add(%{previous}, %y.1, %1)")
        previous = str(index)
    return "\n".join([*lines, f"  return (%{previous})", ""])


def branching(size: int) -> str:
    """Ifs in a row, each of two blocks with a node, as scripted code has."""
    lines = ["graph(%x.1 : Tensor, %c : bool):"]
    previous = "x.1"
    for index in range(size // 3):
        lines += [
            f"  %p.{index} : Tensor = prim::If(%c)",
            "    block0():",
            f"      %a.{index} : Tensor = aten::relu(%{previous})",
            f"      -> (%a.{index})",
            "    block1():",
            f"      %b.{index} : Tensor = aten::neg(%{previous})",
            f"      -> (%b.{index})",
        ]
        previous = f"p.{index}"
    return "\n".join([*lines, f"  return (%{previous})", ""])


def located(size: int) -> str:
    """Scripted code with a source location on each node and a constant before every fourth."""
    lines = ["graph(%x.1 : Tensor):"]
    previous, constant = "x.1", ""
    for index in range(size):
        if index % 4 == 0:
            constant = f"k.{index}"
            lines.append(f"  %{constant} : int = prim::Constant[value={index}]() # model.py:{index % 997}:8")
        else:
            lines.append(f"  %v.{index} : Tensor = aten::add(%{previous}, %x.1, %{constant}) # model.py:{index % 997}:12")
            previous = f"v.{index}"
    return "\n".join([*lines, f"  return (%{previous})", ""])


def best(work: Callable[[], object], repeats: int = 5) -> float:
    """The fastest of some runs, in seconds of processor time."""
    return min(milliseconds(lambda _: work(), lambda: None, repeats)) / 1000


def main() -> None:
    """Prints a row for each program and size: seconds of ours, of torch's, how many times as long, and the growth.

    Locations are read but not printed, for torch's `parse_ir` drops them. `again` prints them, with the names that are known.
    """
    import torch

    print(
        f"{'program':<10}{'nodes':>8}  {'parse':>7}{'torch':>8}{'ratio':>7}  {'print':>7}{'torch':>8}{'ratio':>7}"
        f"  {'again':>7}{'verify':>8}{'same':>8}  growth of parse, print"
    )
    for program in (straight, branching, located):
        growth = Growth(), Growth()
        for size in SIZES:
            text = program(size)
            graph, theirs = parse(text), torch._C.parse_ir(text)
            reading = best(lambda text=text: parse(text))
            writing = best(lambda graph=graph: print_graph(Graph(graph.body), locations=False))
            again = best(lambda graph=graph: str(graph))
            torch_reading = best(lambda text=text: torch._C.parse_ir(text))
            torch_writing = best(lambda theirs=theirs: str(theirs))
            other = parse(text)
            verifying = best(lambda graph=graph: verify(graph), 2)
            comparing = best(lambda graph=graph, other=other: same_structure(graph, other), 2)
            slopes = [each.at(size, taken) for each, taken in zip(growth, (reading, writing), strict=True)]
            told = "" if any(map(math.isnan, slopes)) else "  ".join(f"n^{slope:.2f}" for slope in slopes)
            print(
                f"{program.__name__:<10}{len(graph.position):>8}  {reading:7.3f}{torch_reading:8.3f}"
                f"{reading / torch_reading:7.1f}  {writing:7.3f}{torch_writing:8.3f}{writing / torch_writing:7.1f}"
                f"  {again:7.3f}{verifying:8.3f}{comparing:8.3f}  {told}"
            )


if __name__ == "__main__":
    main()
