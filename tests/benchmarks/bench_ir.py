"""How fast programs are read and written, beside torch's own C++ on the same text.

Run it: `python tests/benchmarks/bench_ir.py`. It prints a table and asserts nothing: clocks on shared machines lie.
"""

import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from irscope.ir import Graph
from irscope.ir.invariants import verify
from irscope.ir.structural import same_structure
from irscope.ir.text import parse, print_graph
from tests.benchmarks.families import Families, rounds
from tests.benchmarks.harness import Growth, head, milliseconds, row

SIZES = (1_000, 10_000, 100_000)


REFINED = "Float(2, 3, strides=[3, 1], requires_grad=0, device=cpu)"
IFS = """\
  %p{i} : Tensor = prim::If(%c)
    block0():
      %a{i} : Tensor = aten::relu(%{last})
      -> (%a{i})
    block1():
      %b{i} : Tensor = aten::neg(%{last})
      -> (%b{i})"""
LOCATED = """\
  %k{i} : int = prim::Constant[value={i}]() # model.py:{i}:8
  %a{i} : Tensor = aten::add(%{last}, %x, %k{i}) # model.py:{i}:12
  %b{i} : Tensor = aten::add(%a{i}, %x, %k{i}) # model.py:{i}:12
  %c{i} : Tensor = aten::add(%b{i}, %x, %k{i}) # model.py:{i}:12"""
PROGRAMS: Families = {
    "straight": rounds(
        f"%x : {REFINED}, %y : Tensor", f"  %v{{i}} : {REFINED} = aten::add(%{{last}}, %y, %one)",
        constants="  %one : int = prim::Constant[value=1]()",
    ),
    "branching": rounds("%x : Tensor, %c : bool", IFS, nodes=3, carries="p"),
    "located": rounds("%x : Tensor", LOCATED, nodes=4, carries="c"),
}  # fmt: skip
"""Pointwise ops on refined tensors, as a traced model has; a row of ifs of two blocks with a node each, as scripted code has; and
scripted code with a source location on each node and a constant before every three."""


def best(work: Callable[[], object], repeats: int = 5) -> float:
    """The fastest of some runs, in seconds of processor time."""
    return min(milliseconds(lambda _: work(), lambda: None, repeats)) / 1000


def main() -> None:
    """Prints a row for each program and size: seconds of ours, of torch's, how many times as long, and the growth.

    Locations are read but not printed, for torch's `parse_ir` drops them. `again` prints them, with the names that are known.
    """
    import torch

    head("program", "nodes", "parse", "torch", "ratio", "print", "torch", "ratio", "again", "verify", "same", "growth of parse", "of print")
    for name, program in PROGRAMS.items():
        parsing, printing = Growth(), Growth()
        for size in SIZES:
            text = "\n".join(program(size))
            graph, other, theirs = parse(text), parse(text), torch._C.parse_ir(text)
            reading = best(lambda text=text: parse(text))
            writing = best(lambda graph=graph: print_graph(Graph(graph.body), locations=False))
            again = best(lambda graph=graph: str(graph))
            torch_reading = best(lambda text=text: torch._C.parse_ir(text))
            torch_writing = best(lambda theirs=theirs: str(theirs))
            verifying = best(lambda graph=graph: verify(graph), 2)
            comparing = best(lambda graph=graph, other=other: same_structure(graph, other), 2)
            row(
                name, len(graph.position), reading, torch_reading, reading / torch_reading, writing, torch_writing, writing / torch_writing,
                again, verifying, comparing, parsing.at(size, reading), printing.at(size, writing),
            )  # fmt: skip


if __name__ == "__main__":
    main()
