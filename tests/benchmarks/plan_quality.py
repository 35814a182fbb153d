"""Kernels launched for the fusible part of eight models: our plans, torch's legacy fuser's, and Inductor's.

    python tests/benchmarks/plan_quality.py                # every model; Inductor plans, and compiles nothing
    python tests/benchmarks/plan_quality.py --views            # greedy without disjoint parts, with them, and with recommended layouts

*The fusible part* is what none of the three leaves to a library in all models: elementwise ops, reductions, normalisations,
copies, joins and fills. Matrix products, convolutions, attention, pooling, resampling, look-ups, running sums are library
ops, also where Inductor writes a loop for them. A launch is a kernel of a group (the one that the code generator makes; of
a group that it declines, each node), or an op of the fusible part outside of groups, run by the library. Views that copy
nothing are not launches.

Of Inductor: the nodes that its scheduler ends with, for the CPU, without what only readies arguments of library calls
(copies of weights and inputs into other layouts), which the libraries do inside themselves otherwise.

In brackets: groups. Bytes are those of each launch's arguments and results, as if each lay in memory in full.
"""

import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch

sys.path.insert(0, str(Path(__file__).parents[2]))

import irscope as irs
from irscope.analysis.shapes import Shapes, infer
from irscope.codegen.lowering import spec_of_group
from irscope.errors import CodegenError
from irscope.ir import Graph, Node, TensorType, Type
from irscope.ops.registry import category_of, effect_of, op_of
from irscope.ops.type_rules import view_strides
from irscope.transforms.cleanup.channels_last import channels_last
from irscope.transforms.cleanup.layouts import recommend_layouts
from irscope.transforms.fusion import POLICIES
from tests.benchmarks.harness import command, head, row
from tests.benchmarks.inductor import planned
from tests.benchmarks.models import MODELS, seeded

LIBRARY = frozenset("embedding gather index index_select sort topk nonzero scatter cumsum cumprod diff upsample_nearest2d".split())


class Plan(NamedTuple):
    """What a program launches."""

    groups: int
    launches: list[str]
    """Of the fusible part: what each does."""
    library: int
    """Library ops."""
    megabytes: float
    """That the launches of the fusible part move."""


# -- graphs of ours --------------------------------------------------------------------------------------------------


def plan_of(graph: Graph, kernels: Callable[[Node, Shapes], int] | None = None) -> Plan:
    """The launches of a graph with groups, each of which needs so many kernels."""
    shapes = infer(graph)
    launches: list[str] = []
    groups = library = size = 0
    for node in outside_groups(graph):
        if node.op in ("prim::FusionGroup", "prim::TensorExprGroup"):
            groups += 1
            inside = [n.op.partition("::")[2] for n in node.blocks[0].nodes if n.op != "prim::Constant"]
            launches += [" ".join(inside)] * (kernels or launches_of)(node, shapes)
        elif is_library(node):
            library += 1
            continue
        elif readies_convolutions(graph, node):
            continue
        elif launches_itself(node, shapes):
            launches.append(node.op.partition("::")[2])
        else:
            continue
        size += sum(bytes_of(shapes.type(value)) for value in (*dict.fromkeys(node.inputs), *node.outputs))
    return Plan(groups, launches, library, size / 1e6)


def outside_groups(graph: Graph) -> Iterator[Node]:
    for node in graph.nodes():
        owner = graph.owner.get(graph.block_of[node])
        if node.op != "prim::Constant" and (owner is None or owner.op in ("prim::If", "prim::Loop")):
            yield node


def launches_of(group: Node, shapes: Shapes) -> int:
    """The kernels of a group; if there can be none, the ops that run in their place."""
    types = [bare(shapes.type(value)) for value in group.inputs]
    try:
        return len(spec_of_group(group, types).launches)
    except CodegenError as error:
        print(f"   no kernel: {error.what}", file=sys.stderr)
        return sum(launches_itself(node, shapes) for node in group.blocks[0].nodes)


def bare(type: Type) -> Type:
    return TensorType(type.dtype, type.shape, type.strides) if isinstance(type, TensorType) else type


def bytes_of(type: Type) -> int:
    if not isinstance(type, TensorType) or type.numel is None or type.dtype is None:
        return 0
    return type.numel * torch.empty(0, dtype=getattr(torch, type.dtype)).element_size()


def is_library(node: Node) -> bool:
    op = op_of(node)
    if node.op.partition("::")[2] in LIBRARY or category_of(node) in ("matmul", "convolution"):
        return True
    return category_of(node) == "reduction" and op is not None and op.expression is None


def readies_convolutions(graph: Graph, node: Node) -> bool:
    """Whether a node lays out what only convolutions read, as they would inside of themselves; of Inductor such are left out, too."""
    users = [use.user for use in graph.users.get(node.output, ())] if node.op == "aten::contiguous" else []
    return bool(users) and all(isinstance(user, Node) and category_of(user) == "convolution" for user in users)


def launches_itself(node: Node, shapes: Shapes) -> bool:
    """Whether a node outside groups moves elements."""
    name, category = node.op.partition("::")[2], category_of(node)
    if node.blocks or not node.outputs or category in ("container", "scalar", "control", "other"):
        return effect_of(node) == "in-place"
    if name in ("to", "type_as", "contiguous", "reshape", "flatten", "dropout"):
        return copies(name, node, shapes)
    return category in ("pointwise", "reduction", "normalization", "memory", "random")


def copies(name: str, node: Node, shapes: Shapes) -> bool:
    """Whether an op that may give back its argument, or a view of it, cannot."""
    before, after = bare(shapes.type(node.inputs[0])), bare(shapes.type(node.output))
    if not isinstance(before, TensorType) or not isinstance(after, TensorType) or not before.is_static:
        return True
    if name in ("reshape", "flatten"):
        return view_strides(before.shape, before.strides, after.shape) is None  # type: ignore[arg-type]
    if name == "contiguous":
        return before.strides != after.strides
    return before.dtype != after.dtype


# -- torch ------------------------------------------------------------------------------------------------------------


def plan_of_torch(model: torch.nn.Module, arguments: tuple[torch.Tensor, ...]) -> Plan:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        traced = torch.jit.trace(model, arguments, check_trace=False)
        graph = torch.jit.freeze(traced, optimize_numerics=False).graph.copy()
    torch._C._jit_pass_dce(graph)
    torch._C._jit_override_can_fuse_on_cpu_legacy(True)
    torch._C._jit_pass_fuse(graph, False)
    return plan_of(irs.parse(str(graph)), kernels=lambda group, shapes: 1)


def plan_of_inductor(model: torch.nn.Module, arguments: tuple[torch.Tensor, ...]) -> Plan:
    """The scheduler's nodes after fusion."""
    return planned(model, arguments, lambda lowering: _inductors(lowering.scheduler.nodes))


def _inductors(nodes: list[Any]) -> Plan:
    launches, library, size = [], 0, 0
    for node in nodes:
        parts = node.get_nodes()
        if all(part.is_extern() for part in parts):
            library += 1
        elif any(counts(part) for part in parts if type(part).__name__ == "SchedulerNode"):
            launches.append(" + ".join(" ".join(sorted(names(part))) or "copy" for part in parts))
            size += node.get_read_write_buffers_sizes()
    return Plan(len(launches), launches, library, size / 1e6)


LIBRARY_ORIGINS = frozenset(
    """convolution mm addmm bmm _scaled_dot_product_flash_attention_for_cpu embedding gather index _unsafe_index cumsum
    _low_memory_max_pool_with_offsets iota""".split()
)
MOVES_ONLY = frozenset("ops get_index load store output".split())


def names(node: Any) -> set[str]:
    """The ops that Inductor made a scheduler node of."""
    origins = node.node.get_origins() if node.node is not None else ()
    return {getattr(origin.target, "__name__", str(origin.target)).partition(".")[0] for origin in origins}


def counts(node: Any) -> bool:
    """Whether a scheduler node does some of the fusible part: not a copy that only readies a library call's argument,
    nor nothing but a library op that Inductor writes itself."""
    made_of = names(node) - {"permute", "reshape", "expand", "slice", "unsqueeze", "split", "select", "squeeze"}
    if made_of and made_of <= LIBRARY_ORIGINS:
        return False
    targets = {str(op.target) for op in node._body.root_block.graph.nodes}
    return not (targets <= MOVES_ONLY and made_of & LIBRARY_ORIGINS)


# -- what the analysis of views brings --------------------------------------------------------------------------------


@contextmanager
def without_parts() -> Iterator[None]:
    """Slices of one buffer are taken to overlap, as torch's alias db takes them."""
    from irscope.analysis.views import view_aliases
    from irscope.transforms.functionalize import alias_families

    places: list[tuple[Any, str, Any]] = [
        (view_aliases, "are_disjoint", lambda a, b: None), (view_aliases, "are_apart", lambda a, b: False),
        (alias_families, "are_apart", lambda graph, a, b: False),
    ]  # fmt: skip
    kept = [getattr(module, name) for module, name, _ in places]
    for module, name, other in places:
        setattr(module, name, other)
    try:
        yield
    finally:
        for (module, name, _), function in zip(places, kept, strict=True):
            setattr(module, name, function)


def convolutions_copy(graph: Graph) -> float:
    """Megabytes that convolutions read and write plane by plane, and so copy (oneDNN), or that are copied for them."""
    shapes, size = infer(graph), 0
    for node in graph.nodes():
        if readies_convolutions(graph, node):
            size += bytes_of(shapes.type(node.output))
        given = shapes.type(node.inputs[0]) if node.op in ("aten::conv2d", "aten::convolution") else None
        if isinstance(given, TensorType) and given.strides is not None and given.strides[1] != 1:
            size += bytes_of(given) + bytes_of(shapes.type(node.output))
    return size / 1e6


def view_figures(load: Callable[[], Graph]) -> Iterator[float]:
    """Launches, megabytes that they move, and megabytes that convolutions copy beside them: before, with parts, with layouts."""
    with without_parts():
        graphs = [irs.fuse(load()).graph]
    graphs.append(irs.fuse(load()).graph)
    graphs.append(channels_last(irs.fuse(recommend_layouts(load()).after).graph).after)
    for graph in graphs:
        plan = plan_of(graph)
        yield from (len(plan.launches), plan.megabytes, convolutions_copy(graph))


# -- the table ---------------------------------------------------------------------------------------------------------


def print_views(models: Sequence[str]) -> None:
    kinds = [f"{kind}: {what}" for kind in ("before", "parts", "layouts") for what in ("launches", "MB", "MB in convolutions")]
    head("model", *kinds)
    for name in models:
        model, arguments = seeded(MODELS[name])
        row(name, *view_figures(partial(irs.load, model, *arguments)))


def main() -> None:
    options = command(__doc__)
    options.add_argument("models", nargs="*", default=list(MODELS))
    options.add_argument("--views", action="store_true", help="greedy with and without what the analysis of views brings")
    chosen = options.parse_args()
    if chosen.views:
        print_views(chosen.models)
        return
    columns = [*POLICIES, "unfused", "torch's legacy fuser", "Inductor"]
    head("model", "nodes", "library ops", *columns, "MB unfused", "greedy", "Inductor")
    better = 0
    for name in chosen.models:
        model, arguments = seeded(MODELS[name])
        graph = irs.load(model, *arguments)
        plans = {policy: plan_of(irs.fuse(graph, policy=policy).graph) for policy in POLICIES}
        plans["unfused"] = plan_of(graph)
        plans["torch's legacy fuser"] = plan_of_torch(model, arguments)
        plans["Inductor"] = plan_of_inductor(model, arguments)
        launches = [f"{len(plans[way].launches)}" + f" ({plans[way].groups})" * bool(plans[way].groups) for way in columns]
        sizes = [plans[way].megabytes for way in ("unfused", "greedy", "Inductor")]
        row(name, sum(1 for _ in graph.nodes()), plans["greedy"].library, *launches, *sizes)
        better += len(plans["greedy"].launches) <= len(plans["Inductor"].launches)
    print(f"\ngreedy launches no more kernels than Inductor in {better} of {len(chosen.models)}")


if __name__ == "__main__":
    main()
