"""The fusion pass: groups ops that run as one kernel, explains why others do not, and outlines each group into one node."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import Literal

from irscope._base.progress import progress
from irscope._base.running import without_collector
from irscope.analysis.alias.query import AliasDb
from irscope.analysis.dependence import Dependences, dependences_by
from irscope.analysis.per_graph import leads, once
from irscope.errors import ArgumentError
from irscope.ir import Block, Graph, Merged, Module
from irscope.ops.accuracy import Exact, is_exact
from irscope.transforms.base import PassRecord
from irscope.transforms.fusion.block_plan import MAX_ARGUMENTS, MAX_NODES, NOWHERE, BlockPlan, Limits
from irscope.transforms.fusion.domains import profiles_of
from irscope.transforms.fusion.explain import remarks_of
from irscope.transforms.fusion.fusion_result import GROUPING, Fusion
from irscope.transforms.fusion.outline import Groups, group_views
from irscope.transforms.fusion.planning import (
    FusionOptions,
    Named,
    Plans,
    as_graph,
    fusible_blocks,
    plans_of,
    wishes_of,
)
from irscope.transforms.fusion.policies import Score, policy_of
from irscope.transforms.fusion.prepare import PREPARING, Prepared, prepare
from irscope.transforms.history import History

__all__ = ["form_groups", "fuse", "fuse_groups", "fuse_rebuilding"]


def fuse(
    graph: Graph | Module, *, policy: str | Score = "greedy", min_size: int = 2, max_arguments: int = MAX_ARGUMENTS,
    max_nodes: int = MAX_NODES, view_groups: bool = False, exact: Exact = None, forbid: Iterable[Iterable[Named]] = (),
    force: Iterable[Iterable[Named]] = (), opaque: Iterable[Named] = (),
) -> Fusion:  # fmt: skip
    """Group ops into kernels, after folding what is known before the program runs and functionalizing in-place ops.

    A `Module` is fused as its one public graph, with its calls inlined. Groups are formed within each block, of `min_size` to
    `max_nodes` nodes, with at most `max_arguments` inputs and outputs. The meaning of the program is preserved: see
    `irscope.transforms.grouping` for the argument. `policy`:

    * `"greedy"`: consumers from the last to the first, and for each its producers, the latest first; then siblings.
    * `"min-bytes"`: always the merge that saves most memory traffic; then siblings.
    * `"torch-legacy"`: exactly the order of PyTorch's `_jit_pass_fuse`, including its count of arguments.
    * a function that takes a `Candidate` and scores it: the best merge happens first, None and numbers up to 0
      decline. It is called again when the groups have grown.

    Without options it is the pipeline `prepare-fusion,fuse-groups`, and then `group-views` with `view_groups`.

    `view_groups` outlines two or more views that follow one another and are in no kernel into one node of kind `"view"`.
    It has no kernel either: the views run as before, and nothing is copied. Nothing runs faster, but the picture is
    smaller, so it is optional.

    Whatever the policy, no two nodes of an entry of `forbid` are put into one kernel, those of each entry of `force` are put into
    one before the policy decides the rest, and `opaque` nodes (or all nodes of an op, `"aten::exp"`) stay with the library. Nodes
    are named as for `why_not`. A merge that cannot be forced without making the program wrong is skipped, and `f.refused` has a
    remark that says why. `f.what_if` changes such wishes of an existing fusion.

    With `exact="torch"` kernels contain only ops whose results then have torch's bits; `irs.compile` has the same option.

    >>> import irscope as irs
    >>> g = irs.parse('''graph(%x : Float(2, 3)):
    ...   %a : Float(2, 3) = aten::relu(%x)
    ...   %b : Float(2, 3) = aten::tanh(%a)
    ...   %c : Float(3, 2) = aten::t(%b)
    ...   return (%c)''')
    >>> f = fuse(g)
    >>> print(f.graph)
    graph(%x : Float(2, 3)):
      %b : Float(2, 3) = prim::FusionGroup[kind="pointwise"](%x)
        block0(%x.1 : Float(2, 3)):
          %a : Float(2, 3) = aten::relu(%x.1)
          %b.1 : Float(2, 3) = aten::tanh(%a)
          -> (%b.1)
      %c : Float(3, 2) = aten::t(%b)
      return (%c)
    >>> bool(f.why_not("a", "b")), bool(f.why_not("b", "c"))
    (True, False)
    >>> f = fuse(g, policy=lambda candidate: None if candidate.consumer.op == "aten::tanh" else candidate.bytes_saved)
    >>> print(f.why_not("a", "b"))
    no, because policy '<lambda>' declines: its score is None; policy="min-bytes" joins them
    >>> f = fuse(g, forbid=[("a", "b")], force=[("a", "c")])
    >>> f.groups, f.refused[0].because.partition(": ")[2]
    ((), 'aten::t is a view at the edge of a group: a kernel has only views between two of its nodes')
    """
    program = as_graph(graph, "fuse")
    wishes = wishes_of(program, forbid, force, opaque)
    options = FusionOptions(policy_of(policy), min_size, Limits(max_arguments, max_nodes), is_exact(exact), wishes)
    with without_collector():
        fusion = _fuse(program, options, {})
    return _with_view_groups(fusion) if view_groups else fusion


def fuse_groups(graph: Graph) -> Fusion:
    """Group the ops of a graph as it is: `fuse` without `prepare_fusion` before it.

    >>> import irscope as irs
    >>> g = irs.parse('''graph(%x : Float(4)):
    ...   %a : Float(4) = aten::neg(%x)
    ...   %b : Float(4) = aten::relu(%a)
    ...   return (%b)''')
    >>> fuse_groups(g)
    <Fusion of 'graph': 2 nodes in 1 group>
    """
    history = History(as_graph(graph, GROUPING))
    with without_collector():
        return form_groups(history, plans_of(history, FusionOptions()))


def _fuse(graph: Graph, options: FusionOptions, made: Prepared) -> Fusion:
    with progress(PREPARING + 3, "fusing") as step:
        history = prepare(graph, options, step, made)
        plans = plans_of(history, options)
        step()
        fusion = form_groups(history, plans, step)
    return replace(fusion, _again=partial(_fuse_again, graph, made))


def _fuse_again(graph: Graph, made: Prepared, options: FusionOptions, assumed: Graph | None) -> Fusion:
    """Fuse the same program again with other options, or with other assumptions about its inputs."""
    with without_collector():
        return _fuse(graph, options, made) if assumed is None or assumed is graph else _fuse(assumed, options, {})


def form_groups(history: History, plans: Plans, step: Callable[[], object] = lambda: None) -> Fusion:
    """Build the groups that were planned for the last graph of a history; `step` is called twice."""
    before, options = history.final, plans.options
    started = perf_counter()
    groups = Groups(plans.profiles, plans.by_block.values(), min_size=options.min_size)
    done = groups.carry_out()
    step()
    told = any(record.name == "functionalize" for record in history.records)  # its remarks say which writes stay in place
    found = [remark for remark in remarks_of(list(plans.by_block.values()), done) if not told or remark.rule != "in-place"]
    remarks = (*found, *plans.refused)
    seconds = perf_counter() - started
    record = PassRecord(GROUPING, before, done.graph, done.edits, remarks, seconds, groups.after)
    leads(record)
    step()
    made = set(done.group_of.values())
    nodes = tuple(node for node in done.graph.nodes() if node in made)

    def again(options: FusionOptions, assumed: Graph | None) -> Fusion:
        start = history if assumed is None else History(assumed)
        with without_collector():
            return form_groups(start, plans_of(start, options))

    return Fusion(
        done.graph, history.initial, options.policy.name, nodes, history.then(record), plans, done.group_of,
        groups.outside_of, again,
    )  # fmt: skip


def _with_view_groups(fusion: Fusion) -> Fusion:
    """The same kernels, with the remaining views in groups of their own."""
    record = group_views(fusion.graph)
    merges = [edit for edit in record.edits if isinstance(edit, Merged)]
    if not merges:
        return fusion
    leads(record)
    group_of = {**fusion._group_of, **{node: edit.group for edit in merges for node in edit.nodes}}
    made = {*fusion.groups, *(edit.group for edit in merges)}
    return replace(
        fusion,
        graph=record.after,
        groups=tuple(node for node in record.after.nodes() if node in made),
        history=fusion.history.then(record),
        _group_of=group_of,
    )


# Fusion as compilers once did it: the alias db is rebuilt while groups grow.
#
# Merging does not change aliasing, so the plan does not depend on how the db is kept up to date; only its cost does.
# PyTorch rebuilt the db and the order of the nodes after each merge, then once per block (PR #36345), and at last kept
# one db up to date through the whole pass (PR #37106): from 752 s to 5.2 s for one detector. `fuse` plans with one db, and
# derives that of the fused graph from it. This is for comparison: before each block, or after each merge, it builds
# the current graph, its db, and its dependences.

def fuse_rebuilding(graph: Graph, per: Literal["block", "merge"]) -> Fusion:
    """Returns what `fuse` returns, but builds a new alias db before each block or after each merge.

    >>> import irscope as irs
    >>> g = irs.parse('''graph(%x : Float(4)):
    ...   %a : Float(4) = aten::neg(%x)
    ...   %b : Float(4) = aten::relu(%a)
    ...   return (%b)''')
    >>> fuse_rebuilding(g, "merge")
    <Fusion of 'graph': 2 nodes in 1 group>
    """
    if per not in ("block", "merge"):
        raise ArgumentError(f"an AliasDb is not rebuilt per {per!r}", hint='per is "block" or "merge"')
    options = FusionOptions()
    history = prepare(as_graph(graph, "fuse_rebuilding"), options)
    profiles = profiles_of(history.final)
    plans: dict[Block, BlockPlan] = {}
    groups = Groups(profiles, plans.values(), min_size=options.min_size)
    rebuilding = _Rebuilding(groups)
    for block in fusible_blocks(history.final):
        plan = plans[block] = BlockPlan(rebuilding.dependences(block), profiles, options.limits)
        if per == "merge":
            plan.on_merge = rebuilding.merged
        options.policy.grow(plan)
    fusion = form_groups(history, Plans(profiles, plans, options, NOWHERE, ()))
    once(fusion.graph, AliasDb, lambda: AliasDb(fusion.graph))
    return fusion


class _Rebuilding:
    """Rebuilds the graph after the merges so far, with its alias db and dependences."""

    def __init__(self, groups: Groups) -> None:
        self._groups = groups

    def dependences(self, block: Block) -> Dependences:
        """The dependences of a block that no merge has touched."""
        return dependences_by(AliasDb(self._groups.so_far()), block)

    def merged(self, plan: BlockPlan) -> None:
        """Rebuild, after one more merge, the graph, its db, and the dependences of the block."""
        graph = self._groups.so_far()
        block = next(block for block in graph.blocks() if block.id == plan.block.id)
        dependences_by(AliasDb(graph), block)
