"""Large programs of one shape each, as torch IR text, and the table of a pass over them beside torch's.

A family takes a number of nodes, and some the type of their tensors; it gives the lines of a program over `%x` and `%y`.
"""

import argparse
import math
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import irscope as irs
from tests.benchmarks.harness import Growth, head, median_ms, row

Lines = Iterator[str]
Families = Mapping[str, Callable[[int], Lines]]


def rounds(opening: str, text: str, *, nodes: int = 1, carries: str = "v", constants: str = "") -> Callable[[int], Lines]:
    """A family of the same lines again and again, of so many nodes: in them `{i}` is the number of the round, and `{last}` the
    value that the round before called by `carries` and its number."""

    def lines(count: int) -> Lines:
        yield f"graph({opening}):\n{constants}"
        last = "x"
        for i in range(count // nodes):
            yield text.format(i=i, last=last)
            last = f"{carries}{i}"
        yield f"  return (%{last})"

    return lines


def _opening(tensor: str) -> str:
    return f"graph(%x : {tensor}, %y : {tensor}):"


def chain(count: int, tensor: str = "Tensor") -> Lines:
    """Each op reads the one before it."""
    return cut(count, tensor, "mul")


def cut(count: int, tensor: str, by: str, *, every: int = 10) -> Lines:
    """A chain, of which one in so many ops is another one."""
    yield _opening(tensor)
    for i in range(count):
        yield f"  %v{i} : {tensor} = aten::{'mul' if i % every else by}(%{f'v{i - 1}' if i else 'x'}, %y)"
    yield f"  return (%v{count - 1})"


def twice(count: int, tensor: str = "Tensor") -> Lines:
    """Each value is used by the two ops behind it."""
    yield _opening(tensor)
    for i in range(count):
        a, b = (f"v{i - 1}" if i else "x"), (f"v{i - 2}" if i > 1 else "y")
        yield f"  %v{i} : {tensor} = aten::mul(%{a}, %{b})"
    yield f"  return (%v{count - 1})"


def independent(count: int, tensor: str = "Tensor") -> Lines:
    """No op reads another."""
    yield _opening(tensor)
    for i in range(count):
        yield f"  %v{i} : {tensor} = aten::mul(%x, %y)"
    yield f"  return ({', '.join(f'%v{i}' for i in range(count))})"


def live(count: int, tensor: str = "Tensor") -> Lines:
    """A chain all of whose values are returned."""
    yield from list(chain(count, tensor))[:-1]
    yield f"  return ({', '.join(f'%v{i}' for i in range(count))})"


def add_options(options: argparse.ArgumentParser, families: Families, *, sizes: list[int], repeats: int) -> None:
    """Which families, at which sizes, how often, and whether beside torch."""
    options.add_argument("--sizes", type=int, nargs="+", default=sizes)
    options.add_argument("--families", nargs="+", default=list(families), choices=list(families))
    options.add_argument("--repeats", "--repeat", type=int, default=repeats)
    options.add_argument("--ours-only", action="store_true")


def beside_torch(
    families: Families, chosen: argparse.Namespace, ours: Callable[[irs.Graph], Any], theirs: Callable[[Any], object],
    limits: Mapping[str, int],
) -> None:  # fmt: skip
    """A row for each family and size: medians of processor time on graphs that were parsed afresh, the growth of ours, and how many groups
    ours makes. Torch runs once where it takes seconds, and not at all beyond the limit of a family."""
    import torch

    head("family", "nodes", "ours ms", "torch ms", "torch / ours", "groups", "exponent")
    for family in chosen.families:
        growth = Growth()
        for size in chosen.sizes:
            text = "\n".join(families[family](size))
            mine, its = median_ms(ours, partial(irs.parse, text), chosen.repeats), math.nan
            if not chosen.ours_only and size <= limits.get(family, size):
                its = median_ms(theirs, partial(torch._C.parse_ir, text), chosen.repeats, at_most=2000)
            row(family, size, mine, its, its / mine, len(ours(irs.parse(text)).groups), growth.at(size, mine))
