"""Building the alias db against torch's C++ `graph.alias_db()`, on the same graphs, in one process.

    python tests/benchmarks/bench_alias.py                        # 10^5 nodes, three builds each, every family
    python tests/benchmarks/bench_alias.py --sizes 1000 10000 100000 300000 --families chain merging_ifs
    python tests/benchmarks/bench_alias.py --ours-only --sizes 1000000

Torch's db keeps caches in the graph's values, so each of its builds gets a freshly parsed graph; ours are built on one
parsed graph. Times are medians of processor time in milliseconds, so that other programs on the machine matter less.
`writers` asks every value of the top block whether it has writers, of both. `exponent` is the slope of our time between the last two sizes.
"""

from __future__ import annotations

import argparse
import gc
import math
import statistics
import sys
import time
from collections.abc import Callable, Iterator

from irscope.analysis.alias.query.alias_db import AliasDb
from irscope.ir.text.parser import parse

Lines = Iterator[str]


def chain(count: int) -> Lines:
    yield "graph(%x : Tensor, %y : Tensor):"
    last = "x"
    for i in range(count):
        yield f"  %v{i} : Tensor = aten::mul(%{last}, %y)"
        last = f"v{i}"
    yield f"  return (%{last})"


def view_and_write(count: int) -> Lines:
    yield "graph(%x : Tensor, %y : Tensor):"
    yield "  %one : int = prim::Constant[value=1]()"
    last = "x"
    for i in range(count // 3):
        yield f"  %a{i} : Tensor = aten::mul(%{last}, %y)"
        yield f"  %b{i} : Tensor = aten::t(%a{i})"
        yield f"  %c{i} : Tensor = aten::add_(%b{i}, %y, %one)"
        last = f"a{i}"
    yield f"  return (%{last})"


def one_base(count: int) -> Lines:
    yield "graph(%x : Tensor, %y : Tensor):"
    yield "  %one : int = prim::Constant[value=1]()"
    yield "  %base : Tensor = aten::mul(%x, %y)"
    for i in range(count // 2):
        yield f"  %b{i} : Tensor = aten::t(%base)"
        yield f"  %c{i} : Tensor = aten::add_(%b{i}, %y, %one)"
    yield "  return (%base)"


def view_chain(count: int) -> Lines:
    yield "graph(%x : Tensor):"
    last = "x"
    for i in range(count):
        yield f"  %v{i} : Tensor = aten::t(%{last})"
        last = f"v{i}"
    yield f"  return (%{last})"


def lists(count: int) -> Lines:
    yield "graph(%x : Tensor, %y : Tensor):"
    yield "  %zero : int = prim::Constant[value=0]()"
    last = "x"
    for i in range(count // 3):
        yield f"  %a{i} : Tensor = aten::mul(%{last}, %y)"
        yield f"  %l{i} : Tensor[] = prim::ListConstruct(%a{i}, %y)"
        yield f"  %e{i} : Tensor = aten::__getitem__(%l{i}, %zero)"
        last = f"e{i}"
    yield f"  return (%{last})"


def tuples(count: int) -> Lines:
    yield "graph(%x : Tensor, %y : Tensor):"
    last = "x"
    for i in range(count // 3):
        yield f"  %a{i} : Tensor = aten::mul(%{last}, %y)"
        yield f"  %t{i} : (Tensor, Tensor) = prim::TupleConstruct(%a{i}, %y)"
        yield f"  %p{i} : Tensor, %q{i} : Tensor = prim::TupleUnpack(%t{i})"
        last = f"p{i}"
    yield f"  return (%{last})"


def list_and_cat(count: int) -> Lines:
    yield "graph(%x : Tensor, %y : Tensor):"
    yield "  %zero : int = prim::Constant[value=0]()"
    last = "x"
    for i in range(count // 2):
        yield f"  %l{i} : Tensor[] = prim::ListConstruct(%{last}, %y)"
        yield f"  %c{i} : Tensor = aten::cat(%l{i}, %zero)"
        last = f"c{i}"
    yield f"  return (%{last})"


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


def fresh_ifs(count: int) -> Lines:
    yield "graph(%x : Tensor, %y : Tensor, %c : bool):"
    last = "x"
    for i in range(count // 3):
        yield f"  %r{i} : Tensor = prim::If(%c)"
        yield "    block0():"
        yield f"      %f{i} : Tensor = aten::mul(%{last}, %y)"
        yield f"      -> (%f{i})"
        yield "    block1():"
        yield f"      %g{i} : Tensor = aten::mul(%{last}, %{last})"
        yield f"      -> (%g{i})"
        last = f"r{i}"
    yield f"  return (%{last})"


def merging_ifs(count: int) -> Lines:
    yield "graph(%x : Tensor, %y : Tensor, %c : bool):"
    last = "x"
    for i in range(count // 2):
        yield f"  %r{i} : Tensor = prim::If(%c)"
        yield "    block0():"
        yield f"      %f{i} : Tensor = aten::mul(%y, %y)"
        yield f"      -> (%f{i})"
        yield "    block1():"
        yield f"      -> (%{last})"
        last = f"r{i}"
    yield f"  return (%{last})"


def inputs(count: int) -> Lines:
    yield f"graph({', '.join(f'%x{i} : Tensor' for i in range(count))}):"
    yield "  return (%x0)"


FAMILIES: dict[str, Callable[[int], Lines]] = {
    f.__name__: f
    for f in (
        chain,
        view_and_write,
        one_base,
        view_chain,
        lists,
        tuples,
        list_and_cat,
        wide_cat,
        loops,
        nested_loops,
        fresh_ifs,
        merging_ifs,
        inputs,
    )
}
TORCH_LIMIT = {"merging_ifs": 100_000, "nested_loops": 1_000}
"""Beyond these sizes torch takes minutes and gigabytes, or crashes."""


def median_ms(action: Callable[[], object], repeat: int) -> float:
    """The median time of some runs, with the garbage collector as a program finds it."""
    seconds = []
    for _ in range(repeat):
        gc.collect()
        start = time.process_time()
        action()
        seconds.append(time.process_time() - start)
    return 1e3 * statistics.median(seconds)


def torch_ms(text: str, repeat: int) -> tuple[float, float]:
    """The median time of torch's build, each on a graph parsed anew, and of asking the last db for all writers."""
    import torch

    seconds = []
    for _ in range(repeat):
        graph = torch._C.parse_ir(text)
        gc.collect()
        start = time.process_time()
        db = graph.alias_db()
        seconds.append(time.process_time() - start)
    values = [value for node in graph.nodes() for value in node.outputs()]
    writers = median_ms(lambda: sum(map(db.has_writers, values)), 1)
    return 1e3 * statistics.median(seconds), writers


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--sizes", type=int, nargs="+", default=[100_000])
    arguments.add_argument("--families", nargs="+", default=list(FAMILIES), choices=FAMILIES)
    arguments.add_argument("--repeat", type=int, default=3)
    arguments.add_argument("--ours-only", action="store_true")
    given = arguments.parse_args()
    heads = ("nodes", "ours ms", "torch ms", "ratio", "exponent", "writers ms", "torch ms")
    print(f"{'family':<16}" + "".join(f"{head:>12}" for head in heads))
    ratios = []
    for family in given.families:
        before: tuple[int, float] | None = None
        for size in given.sizes:
            text = "\n".join(FAMILIES[family](size))
            graph = parse(text)
            db = AliasDb(graph)  # the first one in a process also loads the op tables
            values = [value for node in graph.body.nodes for value in node.outputs]
            writers = median_ms(lambda db=db, values=values: sum(map(bool, map(db.has_writers, values))), 1)
            del db, values
            ours = median_ms(lambda graph=graph: AliasDb(graph), given.repeat)
            skip = given.ours_only or size > TORCH_LIMIT.get(family, size)
            theirs, their_writers = (math.nan, math.nan) if skip else torch_ms(text, given.repeat)
            slope = math.log(ours / before[1]) / math.log(size / before[0]) if before else math.nan
            before = (size, ours)
            if size == given.sizes[-1] and not skip:
                ratios.append(ours / theirs)
            figures = (ours, theirs, ours / theirs, slope, writers, their_writers)
            shown = (f"{figure:12.2f}".replace("nan", "  -") for figure in figures)
            print(f"{family:<16}{size:>12}" + "".join(shown), flush=True)
            del graph
    if ratios:
        print(
            f"ratio at the largest size: median {statistics.median(ratios):.2f}, worst {max(ratios):.2f}",
            file=sys.stderr,
        )


if __name__ == "__main__":
    main()
