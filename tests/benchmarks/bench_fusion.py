"""Fusing large graphs against torch's C++ legacy fuser (`_jit_pass_fuse`), on the same text, in one process.

    python tests/benchmarks/bench_fusion.py                             # 1000, 3000 and 10000 nodes, every family
    python tests/benchmarks/bench_fusion.py --sizes 10000 100000 --families chain live --ours-only

Ours is everything that `irs.fuse` does: folding, shapes, the alias db, dependences, the plan, the graph and the
remarks. Times are medians of processor time in milliseconds over fresh parses; `exponent` is the slope of our time
between the first and the last size.
"""

from __future__ import annotations

import argparse
import gc
import math
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import irscope as irs
from irscope.transforms.fusion import fuse

Lines = Iterator[str]
TENSOR = "Float(64, 64, strides=[64, 1], requires_grad=0, device=cpu)"


def head() -> str:
    return f"graph(%x : {TENSOR}, %y : {TENSOR}):\n  %one : int = prim::Constant[value=1]()"


def chain(count: int) -> Lines:
    yield head()
    for i in range(count):
        yield f"  %v{i} : {TENSOR} = aten::mul(%{f'v{i - 1}' if i else 'x'}, %y)"
    yield f"  return (%v{count - 1})"


def cut(count: int) -> Lines:
    """A product of matrices after every nine pointwise ops."""
    yield head()
    for i in range(count):
        yield f"  %v{i} : {TENSOR} = aten::{'mul' if i % 10 else 'matmul'}(%{f'v{i - 1}' if i else 'x'}, %y)"
    yield f"  return (%v{count - 1})"


def twice(count: int) -> Lines:
    """Each value is used by the two ops behind it."""
    yield head()
    for i in range(count):
        a, b = (f"v{i - 1}" if i else "x"), (f"v{i - 2}" if i > 1 else "y")
        yield f"  %v{i} : {TENSOR} = aten::mul(%{a}, %{b})"
    yield f"  return (%v{count - 1})"


def independent(count: int) -> Lines:
    yield head()
    for i in range(count):
        yield f"  %v{i} : {TENSOR} = aten::mul(%x, %y)"
    yield f"  return ({', '.join(f'%v{i}' for i in range(count))})"


def live(count: int) -> Lines:
    """A chain all of whose values are returned."""
    yield from list(chain(count))[:-1]
    yield f"  return ({', '.join(f'%v{i}' for i in range(count))})"


def mutating(count: int) -> Lines:
    """Every fifth op writes in place."""
    yield head()
    for i in range(count):
        last = f"v{i - 1}" if i else "x"
        yield f"  %v{i} : {TENSOR} = aten::{'mul' if i % 5 else 'mul_'}(%{last}, %y)"
    yield f"  return (%v{count - 1})"


def recurrent(count: int) -> Lines:
    """A gated recurrent cell, unrolled: nine ops a step, of which two are products of matrices."""
    yield head()
    state = "x"
    for i in range(count // 9):
        yield f"  %g{i} : {TENSOR} = aten::matmul(%{state}, %y)"
        yield f"  %z{i} : {TENSOR} = aten::sigmoid(%g{i})"
        yield f"  %r{i} : {TENSOR} = aten::mul(%z{i}, %{state})"
        yield f"  %m{i} : {TENSOR} = aten::matmul(%r{i}, %y)"
        yield f"  %n{i} : {TENSOR} = aten::tanh(%m{i})"
        yield f"  %d{i} : {TENSOR} = aten::sub(%n{i}, %{state}, %one)"
        yield f"  %e{i} : {TENSOR} = aten::mul(%z{i}, %d{i})"
        yield f"  %f{i} : {TENSOR} = aten::neg(%e{i})"
        yield f"  %h{i} : {TENSOR} = aten::sub(%{state}, %f{i}, %one)"
        state = f"h{i}"
    yield f"  return (%{state})"


FAMILIES: dict[str, Callable[[int], Lines]] = {
    f.__name__: f for f in (chain, cut, twice, independent, live, mutating, recurrent)
}  # fmt: skip


def timed(work: Callable[[Any], object], prepare: Callable[[], Any], repeats: int) -> float:
    """The median processor time in milliseconds of `work` on what `prepare` makes afresh."""
    times = []
    for _ in range(repeats):
        subject = prepare()
        gc.collect()
        started = time.process_time()
        work(subject)
        times.append(1000 * (time.process_time() - started))
    return statistics.median(times)


def torch_fuser() -> tuple[Callable[[Any], object], Callable[[str], Any]]:
    import torch

    torch._C._jit_override_can_fuse_on_cpu_legacy(True)
    return lambda graph: torch._C._jit_pass_fuse(graph, False), torch._C.parse_ir


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--sizes", type=int, nargs="+", default=[1000, 3000, 10000])
    options.add_argument("--families", nargs="+", default=list(FAMILIES), choices=list(FAMILIES))
    options.add_argument("--repeats", type=int, default=3)
    options.add_argument("--ours-only", action="store_true")
    chosen = options.parse_args()
    fuser = None if chosen.ours_only else torch_fuser()
    print(f"{'family':12} {'nodes':>8} {'ours ms':>9} {'torch ms':>9} {'torch/ours':>10} {'groups':>7} {'exponent':>8}")
    for family in chosen.families:
        first: tuple[int, float] | None = None
        for size in chosen.sizes:
            text = "\n".join(FAMILIES[family](size))
            ours = timed(fuse, lambda text=text: irs.parse(text), chosen.repeats)  # type: ignore[misc]
            groups = len(fuse(irs.parse(text)).groups)
            theirs = timed(fuser[0], lambda text=text: fuser[1](text), chosen.repeats) if fuser else math.nan  # type: ignore[misc]
            first = first or (size, ours)
            slope = math.log(ours / first[1]) / math.log(size / first[0]) if size != first[0] else math.nan
            print(
                f"{family:12} {size:8} {ours:9.1f} {theirs:9.1f} {theirs / ours:10.2f} {groups:7} {slope:8.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
