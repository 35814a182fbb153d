"""Building the alias db against torch's C++ `graph.alias_db()`, on the same graphs, in one process.

    python tests/benchmarks/bench_alias.py                        # 10^5 nodes, three builds each, every family
    python tests/benchmarks/bench_alias.py --sizes 1000 10000 100000 300000 --families chain merging_ifs
    python tests/benchmarks/bench_alias.py --ours-only --sizes 1000000

Torch's db keeps caches in the graph's values, so each of its builds gets a freshly parsed graph; ours are built on one
parsed graph. Times are medians of processor time in milliseconds, so that other programs on the machine matter less.
`writers` asks every value of the top block whether it has writers, of both. `exponent` is the slope of our time between the last two sizes.
"""

import math
import statistics
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from irscope.analysis.alias.alias_db import AliasDb
from irscope.ir.text.parser import parse
from tests.benchmarks.families import Families, Lines, add_options, chain, rounds
from tests.benchmarks.harness import Growth, command, head, median_ms, row

XY = "%x : Tensor, %y : Tensor"
ONE = "  %one : int = prim::Constant[value=1]()"
ZERO = "  %zero : int = prim::Constant[value=0]()"

VIEW_AND_WRITE = """\
  %a{i} : Tensor = aten::mul(%{last}, %y)
  %b{i} : Tensor = aten::t(%a{i})
  %c{i} : Tensor = aten::add_(%b{i}, %y, %one)"""
LISTS = """\
  %a{i} : Tensor = aten::mul(%{last}, %y)
  %l{i} : Tensor[] = prim::ListConstruct(%a{i}, %y)
  %e{i} : Tensor = aten::__getitem__(%l{i}, %zero)"""
TUPLES = """\
  %a{i} : Tensor = aten::mul(%{last}, %y)
  %t{i} : (Tensor, Tensor) = prim::TupleConstruct(%a{i}, %y)
  %p{i} : Tensor, %q{i} : Tensor = prim::TupleUnpack(%t{i})"""
LIST_AND_CAT = """\
  %l{i} : Tensor[] = prim::ListConstruct(%{last}, %y)
  %c{i} : Tensor = aten::cat(%l{i}, %zero)"""
FRESH_IFS = """\
  %r{i} : Tensor = prim::If(%c)
    block0():
      %f{i} : Tensor = aten::mul(%{last}, %y)
      -> (%f{i})
    block1():
      %g{i} : Tensor = aten::mul(%{last}, %{last})
      -> (%g{i})"""
MERGING_IFS = """\
  %r{i} : Tensor = prim::If(%c)
    block0():
      %f{i} : Tensor = aten::mul(%y, %y)
      -> (%f{i})
    block1():
      -> (%{last})"""


def one_base(count: int) -> Lines:
    yield "graph(%x : Tensor, %y : Tensor):"
    yield "  %one : int = prim::Constant[value=1]()"
    yield "  %base : Tensor = aten::mul(%x, %y)"
    for i in range(count // 2):
        yield f"  %b{i} : Tensor = aten::t(%base)"
        yield f"  %c{i} : Tensor = aten::add_(%b{i}, %y, %one)"
    yield "  return (%base)"


def wide_cat(count: int) -> Lines:
    yield "graph(%x : Tensor, %y : Tensor):"
    yield "  %zero : int = prim::Constant[value=0]()"
    for i in range(count):
        yield f"  %v{i} : Tensor = aten::mul(%x, %y)"
    yield f"  %l : Tensor[] = prim::ListConstruct({', '.join(f'%v{i}' for i in range(count))})"
    yield "  %c : Tensor = aten::cat(%l, %zero)"
    yield "  return (%c)"


def loops(count: int) -> Lines:
    yield "graph(%x : Tensor, %y : Tensor, %n : int, %t : bool):"
    a, b = "x", "y"
    for i in range(count // 3):
        yield f"  %p{i} : Tensor, %q{i} : Tensor = prim::Loop(%n, %t, %{a}, %{b})"
        yield f"    block0(%i{i} : int, %c{i} : Tensor, %d{i} : Tensor):"
        yield f"      %e{i} : Tensor = aten::mul(%c{i}, %d{i})"
        yield f"      %f{i} : Tensor = aten::mul(%c{i}, %e{i})"
        yield f"      -> (%t, %e{i}, %f{i})"
        a, b = f"p{i}", f"q{i}"
    yield f"  return (%{a})"


def nested_loops(count: int) -> Lines:
    """Half as many levels as nodes, ten thousand at most. Only torch needs the indentation, which is quadratic."""
    depth = min(count // 2, 10_000)
    step = "  " if count <= TORCH_LIMIT["nested_loops"] else ""
    yield "graph(%x : Tensor, %n : int, %t : bool):"
    last = "x"
    for i in range(depth):
        yield f"  {step * i}%o{i} : Tensor = prim::Loop(%n, %t, %{last})"
        yield f"   {step * i}block0(%i{i} : int, %c{i} : Tensor):"
        last = f"c{i}"
    yield f"  {step * depth}%inner : Tensor = aten::neg(%{last})"
    result = "inner"
    for i in reversed(range(depth)):
        yield f"  {step * (i + 1)}-> (%t, %{result})"
        result = f"o{i}"
    yield f"  return (%{result})"


def inputs(count: int) -> Lines:
    yield f"graph({', '.join(f'%x{i} : Tensor' for i in range(count))}):"
    yield "  return (%x0)"


FAMILIES: Families = {
    "chain": chain,
    "view_and_write": rounds(XY, VIEW_AND_WRITE, nodes=3, carries="a", constants=ONE),
    "one_base": one_base,
    "view_chain": rounds("%x : Tensor", "  %v{i} : Tensor = aten::t(%{last})"),
    "lists": rounds(XY, LISTS, nodes=3, carries="e", constants=ZERO),
    "tuples": rounds(XY, TUPLES, nodes=3, carries="p"),
    "list_and_cat": rounds(XY, LIST_AND_CAT, nodes=2, carries="c", constants=ZERO),
    "wide_cat": wide_cat,
    "loops": loops,
    "nested_loops": nested_loops,
    "fresh_ifs": rounds(f"{XY}, %c : bool", FRESH_IFS, nodes=3, carries="r"),
    "merging_ifs": rounds(f"{XY}, %c : bool", MERGING_IFS, nodes=2, carries="r"),
    "inputs": inputs,
}
TORCH_LIMIT = {"merging_ifs": 100_000, "nested_loops": 1_000}
"""Beyond these sizes torch takes minutes and gigabytes, or crashes."""


def torch_ms(text: str, repeat: int) -> tuple[float, float]:
    """The median time of torch's build, each on a graph parsed again, and of asking the last db for all writers."""
    import torch

    parse_ir, dbs = torch._C.parse_ir, []

    def build(graph: Any) -> None:
        dbs[:] = [graph.alias_db(), graph]

    taken = median_ms(build, lambda: parse_ir(text), repeat)
    db, graph = dbs
    values = [value for node in graph.nodes() for value in node.outputs()]
    return taken, median_ms(lambda _: sum(map(db.has_writers, values)), lambda: None, 1)


def main() -> None:
    options = command(__doc__)
    add_options(options, FAMILIES, sizes=[100_000], repeats=3)
    given = options.parse_args()
    head("family", "nodes", "ours ms", "torch ms", "ratio", "exponent", "writers ms", "torch ms")
    ratios = []
    for family in given.families:
        growth = Growth()
        for size in given.sizes:
            text = "\n".join(FAMILIES[family](size))
            graph = parse(text)
            db = AliasDb(graph)  # the first one in a process also loads the op tables
            values = [value for node in graph.body.nodes for value in node.outputs]
            writers = median_ms(lambda db, values=values: sum(map(bool, map(db.has_writers, values))), lambda db=db: db, 1)
            del db, values
            ours = median_ms(AliasDb, lambda graph=graph: graph, given.repeats)
            skip = given.ours_only or size > TORCH_LIMIT.get(family, size)
            theirs, their_writers = (math.nan, math.nan) if skip else torch_ms(text, given.repeats)
            if size == given.sizes[-1] and not skip:
                ratios.append(ours / theirs)
            row(family, size, ours, theirs, ours / theirs, growth.at(size, ours), writers, their_writers)
            del graph
    if ratios:
        print(f"ratio at the largest size: median {statistics.median(ratios):.2f}, worst {max(ratios):.2f}")


if __name__ == "__main__":
    main()
