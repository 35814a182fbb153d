"""The fusion pass: groups ops that run as one kernel, explains why others do not, and outlines each group into one node."""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import replace
from heapq import heappop, heappush
from time import perf_counter
from typing import Final, Literal, NamedTuple

from irscope._base.nested import grouped
from irscope._base.running import progress, without_collector
from irscope.analysis.alias import AliasDb
from irscope.analysis.dependence import dependences_by
from irscope.analysis.per_graph import leads, once
from irscope.errors import ArgumentError, public
from irscope.ir import Block, Graph, Merged, Module, Node, Value, graph_of, nest_of
from irscope.ir.text import named_as
from irscope.ops.accuracy import Exact, is_exact
from irscope.ops.traits import PATCHES
from irscope.ops.view_steps import Num
from irscope.transforms.base import History, PassRecord
from irscope.transforms.cleanup import (
    expand_loop_products,
    expand_recurrent,
    fold_batch_norm,
    fold_constants,
    fold_tensors,
    fold_weights,
    remove_dead_nodes,
    restore_exported,
    tables_of_lists,
    use_onednn,
)
from irscope.transforms.cleanup.channels_last import channels_last
from irscope.transforms.functionalize import functionalize
from irscope.transforms.fusion.block_plan import MAX_ARGUMENTS, MAX_NODES, NOWHERE, BlockPlan, Limits
from irscope.transforms.fusion.domains import MAX_PATCHES, profiles_of
from irscope.transforms.fusion.eligibility import Eligibility, patched_range
from irscope.transforms.fusion.explain import memory_of, remarks_of
from irscope.transforms.fusion.fusion_result import GROUPING, Fusion
from irscope.transforms.fusion.outline import QUICKER_FROM, Groups, group_alone, group_pools, group_turns, group_views
from irscope.transforms.fusion.planning import (
    FusionOptions,
    Named,
    Plans,
    Score,
    Wishes,
    fusible_blocks,
    meant_in,
    plans_of,
    policy_of,
    read_wishes,
)

# Decides which tensors that a program writes part by part become chains of copies, computed as a whole by one kernel.
#
# `functionalize` can write a part as a copy of the whole with a range replaced. Alone that moves more bytes than the write
# did. In one kernel the intermediate copies disappear: each element of the last one is computed from the tensor before all
# writes, and written once.
#
# *The bytes.* In place, each write reads and writes at least its part once: a copy reads its source, another op reads the old
# elements. The kernel reads the whole at most once from memory and writes it once. So it moves no more if the written parts
# together have at least as many elements as the whole; a cache of which one row is written stays as it is.
#
# *One kernel.* The copies and the nodes between them must all be eligible, replace ranges of one axis, and have no other
# users: from the last copy backwards, a node belongs to the kernel when all its users do. A policy, or a write elsewhere, may
# still split a chain: `split_chains` finds these, and their tensors are then written in place as before.

_MOST_NODES: Final = 256
"""The most nodes that one chain may need, as a kernel has a limit too."""


class Chain(NamedTuple):
    """A tensor and its successive copies, each with one more range replaced."""

    base: Value
    copies: list[Node]


def chains_of(graph: Graph) -> Iterator[Chain]:
    """Yields the chains of copies in which each copy but the last is the base of exactly one other."""
    onward = grouped((node.inputs[0], node) for node in graph.nodes() if node.op in PATCHES)
    for base in list(onward):
        producer = graph.producer.get(base)
        if producer is not None and producer.op in PATCHES:
            continue
        copies: list[Node] = []
        here = onward[base]
        while len(here) == 1:
            copies += here
            here = onward.get(here[0].output, [])
        if copies and not here:
            yield Chain(base, copies)


def profitable_copies(graph: Graph, before: Graph, *, exact: bool) -> tuple[frozenset[Value], bool]:
    """Returns the tensors whose partial writes should stay the copies that `functionalize` made, and whether these are all of them."""
    old = {node.id for node in before.nodes() if node.op in PATCHES}
    new = {node for node in graph.nodes() if node.op in PATCHES and node.id not in old}
    if not new:
        return frozenset(), True
    rules = profiles_of(graph, exact=exact).rules
    chains = [chain for chain in chains_of(graph) if new.issuperset(chain.copies) and chain.base in before.producer]
    kept = [chain for chain in chains if _pays(rules, chain) and _is_one_kernel(rules, chain)]
    return frozenset(chain.base for chain in kept), len(new) == sum(len(chain.copies) for chain in kept)


def split_chains(graph: Graph, plans: Mapping[Block, BlockPlan], bases: Container[Value], min_size: int) -> frozenset[Value]:
    """Returns the tensors among `bases` whose copies are not all in one group, or where a copy before the last leaves it."""
    found = set()
    for chain in chains_of(graph):
        if chain.base not in bases:
            continue
        plan = plans[graph.block_of[chain.copies[0]]]
        places = [plan.index.get(copy) for copy in chain.copies]
        groups = {None if place is None else plan.partition.find(place) for place in places}
        group = plan.groups[groups.pop() or 0] if len(groups) == 1 and None not in groups else None
        leaving = any(plan.outside.get(copy.output) for copy in chain.copies[:-1])
        if group is None or leaving or group.size - group.views < max(min_size, 2):
            found.add(chain.base)
    return frozenset(found)


def _pays(rules: Eligibility, chain: Chain) -> bool:
    """Whether the copies move no more bytes than writes in place, and all parts are ranges of one axis."""
    whole = rules.tensor_type(chain.base)
    found = [patched_range(rules, copy) for copy in chain.copies]
    if whole is None or not whole.numel or len(found) > MAX_PATCHES:
        return False
    axes = {where[0] for where in found if where is not None}
    extent = whole.shape[axes.pop()] if None not in found and len(axes) == 1 and whole.shape is not None else None
    return isinstance(extent, int) and sum(stop - start for _, start, stop in filter(None, found)) >= extent


def _is_one_kernel(rules: Eligibility, chain: Chain) -> bool:
    """Whether all copies, and the nodes between them, can be in one group that only the last copy leaves."""
    graph, last = rules.graph, chain.copies[-1]
    members: set[Node] = set()
    waiting: list[tuple[int, int, Node]] = []

    def fits(node: Node) -> bool:
        return graph.block_of[node] is graph.block_of[last] and rules.refusal(node) is None and not rules.axes(node)

    def add(node: Node) -> None:
        """Make a node a member, and put the producers of its operands on the worklist, the latest first."""
        members.add(node)
        for value in node.inputs:
            producer = graph.producer.get(value)
            if producer is not None:
                heappush(waiting, (-graph.position[producer], producer.id, producer))

    if not all(map(fits, chain.copies)):
        return False
    add(last)
    while waiting and len(members) < _MOST_NODES:
        _, _, node = heappop(waiting)
        users = [use.user for value in node.outputs for use in graph.users.get(value, ())]
        if node not in members and fits(node) and all(user in members for user in users):
            add(node)
    return members.issuperset(chain.copies)


# Prepares a program for grouping: the passes that `fuse` begins with.
#
# Known numbers become constants, in-place ops become functional, unused nodes are removed, and small known tensors become
# constants. One step depends on what fuses: a write of a part becomes a copy of the whole only where one kernel computes
# the whole (`profitable_copies`). That is decided on the program in which every such write is
# a copy; usually all of them stay, and that program is the result. Otherwise the others are left in place, and the
# decision is repeated for those that stayed: the policy may split a chain of copies in favour of another group.

PREPARING: Final = 5
"""The number of progress steps of `prepare`."""

Prepared = dict[bool | frozenset[Value], History]
"""The histories of one graph by variant: only folded (False), or with all (True) or some of the writes of parts as copies."""


def prepare_fusion(graph: Graph) -> History:
    """Fold, functionalize and clean up a graph to be fused: `fuse` without the groups.

    It runs `fold-constants,expand-recurrent,tables-of-lists,expand-loop-products,functionalize,dce,fold-tensors`, and after the first
    records only those that changed something or say why they did not; but writes of parts stay in place where no kernel would compute
    the whole.
    """
    with without_collector():
        return prepare(graph_of(graph, "prepare-fusion"), FusionOptions())


def prepare(graph: Graph, options: FusionOptions, step: Callable[[], object] | None = None, made: Prepared | None = None) -> History:
    """Run the passes and return their history; `step` is called `PREPARING` times, which is enough for nearly all graphs. `made`
    caches the graph's histories, so that calls with other wishes need not compute them again."""
    step = step or _nothing
    made = {} if made is None else made
    if False not in made:
        made[False] = _then(History(graph), fold_constants(graph))
        if not options.exact and (layers := expand_recurrent(made[False].final)).remarks:
            made[False] = made[False].then(layers)
        made[False] = _then(made[False], tables_of_lists(made[False].final))
        if not options.exact:
            made[False] = _then(made[False], expand_loop_products(made[False].final))
    folded = made[False]
    step()
    copied: Literal[True] | frozenset[Value] = True
    while True:
        if copied not in made:
            made[copied] = _functionalize(folded, copied, step)
        found = made[copied]
        profitable, all_profitable = profitable_copies(found.final, folded.final, exact=options.exact)
        step()
        step = _nothing  # a second round is rare
        if profitable and (all_profitable or copied is not True):
            split = split_chains(found.final, plans_of(found, options).by_block, profitable, options.min_size)
            profitable, all_profitable = profitable - split, all_profitable and not split
        next_copies = profitable if copied is True else profitable & copied
        if all_profitable or next_copies == copied:
            return found
        copied = next_copies


def _functionalize(history: History, scatter: Literal[True] | frozenset[Value], step: Callable[[], object]) -> History:
    """Functionalize, and run the clean-ups that this enables."""
    pure = functionalize(history.final, scatter=scatter)
    step()
    if pure.edits:  # a functionalized write may be unused, and so may the tensor that it wrote
        history = _then(history, pure)
        history = _then(history, remove_dead_nodes(history.final))
    step()
    history = _then(history, fold_tensors(history.final))
    step()
    return history


def _nothing() -> None:
    """A progress step that is not counted."""


def _leads_by_name(record: PassRecord) -> None:
    """What is known of the graph before a pass is known of the one after it, and values have the numbers there that they had."""
    leads(record)
    if record.edits:
        named_as(record.after, record.before)


def _then(history: History, record: PassRecord) -> History:
    """The history with one more pass, if that changed something; the first pass is always recorded."""
    _leads_by_name(record)
    return history.then(record) if record.edits or not history.records else history


@public
def fuse(
    graph: Graph | Module | Fusion, *, policy: str | Score = "greedy", min_size: int = 2, max_arguments: int = MAX_ARGUMENTS,
    max_nodes: int = MAX_NODES, view_groups: bool = False, exact: Exact = None, forbid: Iterable[Iterable[Named]] = (),
    force: Iterable[Iterable[Named]] = (), opaque: Iterable[Named] = (), freeze: bool = False,
) -> Fusion:  # fmt: skip
    """Group ops into kernels, after folding what is known before the program runs and functionalizing in-place ops.

    A `Module` is fused as its one public graph, with its calls inlined, and the program of a `Fusion` again, from before it was fused
    (`f.what_if` keeps its options). Groups that a graph has already stay as they are. Groups are formed within each block, of `min_size` to
    `max_nodes` nodes, with at most `max_arguments` inputs and outputs. The meaning of the program is preserved: see
    `irscope.transforms.grouping` for the argument. `policy`:

    * `"greedy"`: consumers from the last to the first, and for each its producers, the latest first; then siblings.
    * `"min-bytes"`: always the merge that saves most memory traffic; then siblings.
    * `"torch-legacy"`: exactly the order of PyTorch's `_jit_pass_fuse`, including its count of arguments.
    * a function that takes a `Candidate` and scores it: the best merge happens first, None and numbers up to 0
      decline. It is called again when the groups have grown.

    Without options it is the pipeline `prepare-fusion,fuse-groups,group-turns`, and then `group-views` with `view_groups`: an op of
    a loop's body in which all else is kernels is a group of its own.

    `view_groups` outlines two or more views that follow one another and are in no kernel into one node of kind `"view"`.
    It has no kernel either: the views run as before, and nothing is copied. Nothing runs faster, but the picture is
    smaller, so it is optional.

    Whatever the policy, no two nodes of an entry of `forbid` are put into one kernel, those of each entry of `force` are put into
    one before the policy decides the rest, and `opaque` nodes (or all nodes of an op, `"aten::exp"`) stay with the library. Nodes
    are named as for `why_not`. A merge that cannot be forced without making the program wrong is skipped, and `f.refused` has a
    remark that says why. `f.what_if` changes such wishes of an existing fusion.

    With `exact="torch"` kernels contain only ops whose results then have torch's bits; `irs.compile` has the same option.

    With `freeze` the program is the one that `irs.compile` makes of a fusion for the processor: batch norms are folded into weights,
    convolutions channels last and the library's with what follows them, where that pays; the history has a step for each.

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
    not fused: policy '<lambda>' declines: its score is None; policy="min-bytes" joins them
    >>> f = fuse(g, forbid=[("a", "b")], force=[("a", "c")])
    >>> f.groups, f.refused[0].because.partition(": ")[2]
    ((), 'aten::t (%c) is a view at the edge of a group: a kernel has only views between two of its nodes')
    """
    given = getattr(graph, "fusion", graph)
    program = given.original if isinstance(given, Fusion) else graph_of(graph, "fuse")
    for name, number in (("min_size", min_size), ("max_arguments", max_arguments), ("max_nodes", max_nodes)):
        if not hasattr(number, "__index__"):
            raise ArgumentError(f"{name} is a number of nodes or arguments, not {number!r}", hint=f"fuse(graph, {name}=8)")
    wishes = read_wishes(meant_in(program), [program], forbid, force, opaque)
    options = FusionOptions(policy_of(policy), min_size, Limits(max_arguments, max_nodes), is_exact(exact), wishes)
    if freeze and options.exact:
        raise ArgumentError('freeze changes how results are rounded, which exact="torch" forbids', hint="leave one of them out")
    with without_collector():
        fusion = _fuse(program, options, {})
    fusion = frozen(fusion) if freeze else fusion
    return _with_more_groups(fusion, group_views(fusion.graph)) if view_groups else fusion


def fuse_groups(graph: Graph) -> Fusion:
    """Group the ops of a graph as it is: `fuse` without `prepare_fusion` before it."""
    history = History(graph_of(graph, GROUPING))
    with without_collector():
        return form_groups(history, plans_of(history, FusionOptions()))


def _fuse(graph: Graph, options: FusionOptions, made: Prepared) -> Fusion:
    with progress(PREPARING + 3, "fusing") as step:
        history = prepare(graph, options, step, made)
        plans = plans_of(history, options)
        step()
        fusion = _with_single_ops(form_groups(history, plans, step), group_turns)

    def again(other: FusionOptions, assumed: Graph | None) -> Fusion:
        """Fuses the same program with other options, or with other assumptions about its inputs. What was `made` serves a fusion that is
        as exact: loops in others have other products."""
        is_same = (assumed is None or assumed is graph) and other.exact == options.exact
        with without_collector():
            return _fuse(graph if assumed is None else assumed, other, made if is_same else {})

    return replace(fusion, _again=again)


def form_groups(history: History, plans: Plans, step: Callable[[], object] = lambda: None) -> Fusion:
    """Build the groups that were planned for the last graph of a history; `step` is called twice."""
    before, options = history.final, plans.options
    started = perf_counter()
    groups = Groups(plans.profiles, plans.by_block.values(), min_size=options.min_size)
    after, edits, group_of = groups.carry_out()
    step()
    told = any(record.name == "functionalize" for record in history.records)  # its remarks say which writes stay in place
    found = [remark for remark in remarks_of(list(plans.by_block.values()), group_of) if not told or remark.rule != "in-place"]

    def saved(merge: Merged) -> Num:
        plan = plans.by_block[plans.rules.graph.block_of[merge.nodes[0]]]
        return memory_of(plans.rules).saved(plan, *map(plan.index.__getitem__, merge.nodes))

    seconds = perf_counter() - started
    record = PassRecord(GROUPING, before, after, edits, (*found, *plans.refused), seconds, groups.after, saved)
    leads(record)
    step()
    made = set(group_of.values())

    def again(options: FusionOptions, assumed: Graph | None) -> Fusion:
        start = history if assumed is None else History(assumed)
        with without_collector():
            return form_groups(start, plans_of(start, options))

    nodes = tuple(node for node in after.nodes() if node in made)
    return Fusion(
        after, history.initial, options.policy.name, nodes, history.then(record), plans, group_of, groups.outside_of, again,
    )  # fmt: skip


# Constants worked on once: a program whose weights stay as they are, for inference on a processor.
#
# What a compiled program computes from weights alone need not be computed at each call. Batch norms become other weights, convolutions
# read and make channels last, as the library computes them, and the library takes an activation or a sum into its epilogue. Each pass
# has its own rule for where that pays, and a remark for where it does not. Results differ by rounding, so `exact` has none of this.

FREEZING: Final = ("fold-weights", "restore-exported", "fold-batch-norm", "channels-last", "group-pools", "onednn", "group-alone")
"""The names of these passes in a history."""


def is_frozen(fusion: Fusion) -> bool:
    """Returns whether these passes ran, and found something to do or to say."""
    return any(record.name in FREEZING for record in fusion.history.records)


def frozen(fusion: Fusion) -> Fusion:
    """Returns the same program with its constants worked on once (the passes of `FREEZING`, of which only the last comes after the groups
    are formed), fused by the same policy. Where these find nothing to do, its graph is the one that there was.

    A fusion stays as it is if it is exact, if it computes gradients, if its groups are another compiler's, or if the caller wished for
    some of them.
    """
    options, records, at = fusion._plans.options, fusion.history.records, fusion._fused_at
    if options.exact or options.wishes != Wishes() or fusion.original.gradients or type(fusion) is not Fusion or is_frozen(fusion):
        return fusion
    with without_collector():
        history = History(fusion.original, records[:at])
        for run in (fold_weights, restore_exported, fold_batch_norm, channels_last, group_pools, use_onednn):
            record = run(history.final)
            _leads_by_name(record)
            history = history.then(record) if record.edits or record.remarks else history
        if history.final is records[at].before:
            made = replace(fusion, history=History(fusion.original, (*history.records, *records[at:])))
        else:
            made = _with_single_ops(form_groups(history, plans_of(history, options)), group_turns)
        if any(node.op in QUICKER_FROM for node in nest_of(made.graph.body)):
            made = _with_single_ops(made, group_alone)
    if made.graph is fusion.graph:
        return made
    return replace(made, _again=lambda options, assumed: frozen(fusion._again(options, assumed)))


def _with_single_ops(fusion: Fusion, group: Callable[[Graph, Callable[[Node], object]], PassRecord]) -> Fusion:
    """The same kernels, and those of the single ops that a pass makes groups of; torch's fuser has none."""
    plans = fusion._plans
    if plans.options.min_size > 2 or fusion.policy == "torch-legacy":
        return fusion
    return _with_more_groups(fusion, group(fusion.graph, plans.refusal))


def _with_more_groups(fusion: Fusion, record: PassRecord) -> Fusion:
    """The same kernels, with the groups that a further pass made."""
    merges = [edit for edit in record.edits if isinstance(edit, Merged)]
    if not merges:
        return fusion
    leads(record)
    made = {*fusion.groups, *(edit.group for edit in merges)}
    return replace(
        fusion,
        graph=record.after,
        groups=tuple(node for node in record.after.nodes() if node in made),
        history=fusion.history.then(record),
        _group_of={**fusion._group_of, **{node: edit.group for edit in merges for node in edit.nodes}},
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
    history = prepare(graph_of(graph, "fuse_rebuilding"), options)
    profiles = profiles_of(history.final)
    plans: dict[Block, BlockPlan] = {}
    groups = Groups(profiles, plans.values(), min_size=options.min_size)
    for block in fusible_blocks(history.final):
        before = sum(len(plan.kept_merges(options.min_size)) for plan in plans.values())
        plan = plans[block] = BlockPlan(dependences_by(AliasDb(groups.carry_out()[0]), block), profiles, options.limits)
        options.policy.grow(plan)
        for merge in range(len(plan.merges)) if per == "merge" else ():
            merged = groups.after(before + merge + 1)
            dependences_by(AliasDb(merged), next(each for each in merged.blocks() if each.id == block.id))
    fusion = _with_single_ops(form_groups(history, Plans(profiles, plans, options, NOWHERE, ())), group_turns)
    once(fusion.graph, AliasDb, lambda: AliasDb(fusion.graph))
    return fusion
