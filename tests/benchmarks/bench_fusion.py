"""Fusing large graphs against torch's C++ legacy fuser (`_jit_pass_fuse`), on the same text, in one process.

    python tests/benchmarks/bench_fusion.py                             # 1000, 3000 and 10000 nodes, every family
    python tests/benchmarks/bench_fusion.py --sizes 10000 100000 --families chain live --ours-only
    python tests/benchmarks/bench_fusion.py --gru 50 100 200 400 1500   # steps of an unrolled GRU, planned
    python tests/benchmarks/bench_fusion.py --alias                     # the alias db of YOLOv3, three ways to keep it
    python tests/benchmarks/bench_fusion.py --autodiff --sizes 1600 6400 25600   # differentiable subgraphs instead of groups

Ours is everything that `irs.fuse` does: folding, shapes, the alias db, dependences, the plan, the graph and the
remarks. Times are medians of processor time in milliseconds over fresh parses; `exponent` is the slope of our time
between the first and the last size. With `--autodiff` it is all that `irs.autodiff_subgraphs` does, beside torch's C++
`_jit_pass_create_autodiff_subgraphs`, which is not run beyond `--limit` nodes of the families in which it is cubic or quadratic.
"""

import sys
from collections.abc import Callable
from copy import copy
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

import irscope as irs
from irscope.transforms.fusion import fuse, fuse_rebuilding
from tests.benchmarks.families import Families, Lines, add_options, beside_torch, chain, cut, independent, live, rounds, twice
from tests.benchmarks.harness import command, head, median_ms, row

TENSOR = "Float(64, 64, strides=[64, 1], requires_grad=0, device=cpu)"
CELL = f"""\
  %g{{i}} : {TENSOR} = aten::matmul(%{{last}}, %y)
  %z{{i}} : {TENSOR} = aten::sigmoid(%g{{i}})
  %r{{i}} : {TENSOR} = aten::mul(%z{{i}}, %{{last}})
  %m{{i}} : {TENSOR} = aten::matmul(%r{{i}}, %y)
  %n{{i}} : {TENSOR} = aten::tanh(%m{{i}})
  %d{{i}} : {TENSOR} = aten::sub(%n{{i}}, %{{last}}, %one)
  %e{{i}} : {TENSOR} = aten::mul(%z{{i}}, %d{{i}})
  %f{{i}} : {TENSOR} = aten::neg(%e{{i}})
  %h{{i}} : {TENSOR} = aten::sub(%{{last}}, %f{{i}}, %one)"""
"""A step of a gated recurrent cell: nine ops, of which two are products of matrices."""


FAMILIES: Families = {
    "chain": lambda count: chain(count, TENSOR),
    "cut": lambda count: cut(count, TENSOR, "matmul"),
    "twice": lambda count: twice(count, TENSOR),
    "independent": lambda count: independent(count, TENSOR),
    "live": lambda count: live(count, TENSOR),
    "mutating": lambda count: cut(count, TENSOR, "mul_", every=5),  # every fifth op writes in place
    "recurrent": rounds(f"%x : {TENSOR}, %y : {TENSOR}", CELL, nodes=9, carries="h", constants="  %one : int = prim::Constant[value=1]()"),
}
AUTODIFF: Families = {
    "chain": chain, "twice": twice, "cut": lambda count: cut(count, "Tensor", "atan2"),  # which has no gradient formula
    "independent": independent, "live": live,
}  # fmt: skip


def gru(steps: int) -> Lines:
    """An `nn.GRU` of one layer, unrolled: two products a step, and 14 other ops (the shape of pytorch#154652)."""
    state, gate = (f"Float(8, {n}, strides=[{n}, 1], requires_grad=0, device=cpu)" for n in (64, 192))
    shapes = {"wi": "64, 192", "wh": "64, 192", "bi": "192", "bh": "192"}
    inputs = [f"%x{i} : {state}" for i in range(steps)] + [f"%{name} : Float({dims})" for name, dims in shapes.items()]
    yield f"graph(%h : {state}, {', '.join(inputs)}):"
    yield "  %one : int = prim::Constant[value=1]()\n  %three : int = prim::Constant[value=3]()"
    h = "h"
    for i in range(steps):
        for side, source in (("i", f"x{i}"), ("h", h)):
            yield f"  %m{side}{i} : {gate} = aten::matmul(%{source}, %w{side})"
            yield f"  %g{side}{i} : {gate} = aten::add(%m{side}{i}, %b{side}, %one)"
            yield f"  %l{side}{i} : Tensor[] = aten::chunk(%g{side}{i}, %three, %one)"
            parts = ", ".join(f"%{gate_name}{side}{i} : {state}" for gate_name in "rzn")
            yield f"  {parts} = prim::ListUnpack(%l{side}{i})"
        for name in "rz":
            yield f"  %s{name}{i} : {state} = aten::add(%{name}i{i}, %{name}h{i}, %one)"
            yield f"  %{name}{i} : {state} = aten::sigmoid(%s{name}{i})"
        yield f"  %p{i} : {state} = aten::mul(%r{i}, %nh{i})"
        yield f"  %q{i} : {state} = aten::add(%ni{i}, %p{i}, %one)"
        yield f"  %n{i} : {state} = aten::tanh(%q{i})"
        yield f"  %d{i} : {state} = aten::sub(%{h}, %n{i}, %one)"
        yield f"  %e{i} : {state} = aten::mul(%z{i}, %d{i})"
        yield f"  %h{i} : {state} = aten::add(%n{i}, %e{i}, %one)"
        h = f"h{i}"
    yield f"  return ({', '.join(f'%h{i}' for i in range(steps))})"


def torchs(graph: Any) -> None:
    import torch

    torch._C._jit_override_can_fuse_on_cpu_legacy(True)
    torch._C._jit_pass_fuse(graph, False)


def torchs_subgraphs(graph: Any) -> None:
    import torch

    torch._C._jit_pass_create_autodiff_subgraphs(graph, 2)


def compare_gru(sizes: list[int], repeats: int) -> None:
    head("GRU steps", "nodes", "plan ms", "ms a step", "groups")
    for steps in sizes:
        text = "\n".join(gru(steps))
        taken = median_ms(fuse, lambda text=text: irs.parse(text), repeats)  # type: ignore[misc]
        fusion = fuse(irs.parse(text))
        row(steps, len(fusion.original.position), taken, taken / steps, len(fusion.groups))


def compare_alias(repeats: int) -> None:
    """The whole of `fuse` and the db of the fused graph, and the part of it that keeps the db."""
    from tests.benchmarks.models import scripted_yolov3

    model, images = scripted_yolov3()
    folded = fuse(irs.load(model, *images)).history.graph(-2)

    def run(per: Any) -> Callable[[Any], object]:
        return lambda graph: fuse_rebuilding(graph, per).alias_db

    def fresh() -> Any:
        return copy(folded)  # without what was found out about it

    plan = median_ms(fuse, fresh, repeats)
    build = median_ms(irs.AliasDb, fresh, repeats)
    following = median_ms(lambda fusion: fusion.alias_db, lambda: fuse(fresh()), repeats)
    print(f"YOLOv3: {len(folded.position)} nodes, {len(fuse(folded).history.steps)} merges; one db takes {build:.1f} ms")
    head("alias", "all ms", "ratio", "for the db ms", "ratio")
    for mode, per in (("follow", ""), ("rebuild-per-block", "block"), ("rebuild-per-merge", "merge")):
        taken = plan + following if mode == "follow" else median_ms(run(per), fresh, repeats)
        kept = build + following if mode == "follow" else taken - plan + build
        row(mode, taken, taken / (plan + following), kept, kept / (build + following))


def main() -> None:
    options = command(__doc__)
    add_options(options, FAMILIES, sizes=[1000, 3000, 10000], repeats=3)
    options.add_argument("--gru", type=int, nargs="+", metavar="STEPS")
    options.add_argument("--alias", action="store_true")
    options.add_argument("--autodiff", action="store_true")
    options.add_argument("--limit", type=int, default=6400, help="torch's largest size of live and independent values, for --autodiff")
    chosen = options.parse_args()
    if chosen.autodiff:
        chosen.families = [family for family in chosen.families if family in AUTODIFF]
        limits = dict.fromkeys(("independent", "live"), chosen.limit)
        beside_torch(AUTODIFF, chosen, irs.autodiff_subgraphs, torchs_subgraphs, limits)
    elif chosen.gru:
        compare_gru(chosen.gru, chosen.repeats)
    elif chosen.alias:
        compare_alias(chosen.repeats)
    else:
        beside_torch(FAMILIES, chosen, fuse, torchs, {})


if __name__ == "__main__":
    main()
