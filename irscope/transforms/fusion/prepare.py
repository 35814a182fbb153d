"""Prepares a program for grouping: the passes that `fuse` begins with.

Known numbers become constants, in-place ops become functional, unused nodes are removed, and small known tensors become
constants. One step depends on what fuses: a write of a part becomes a copy of the whole only where one kernel computes
the whole (`irscope.transforms.fusion.outline.inplace_parts`). That is decided on the program in which every such write is
a copy; usually all of them stay, and that program is the result. Otherwise the others are left in place, and the
decision is repeated for those that stayed: the policy may split a chain of copies in favour of another group.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal

from irscope._base.concurrency.restored import without_collector
from irscope.analysis.per_graph import leads
from irscope.ir import Graph, Value
from irscope.transforms.base import PassRecord
from irscope.transforms.cleanup import fold_constants, fold_tensors, remove_dead_nodes
from irscope.transforms.functionalize import functionalize
from irscope.transforms.fusion.outline import profitable_copies, split_chains
from irscope.transforms.fusion.planning import FusionOptions, as_graph, plans_of
from irscope.transforms.history import History

__all__ = ["PREPARING", "Prepared", "prepare_fusion", "prepare"]

PREPARING: Final = 5
"""The number of progress steps of `prepare`."""

Prepared = dict[bool | frozenset[Value], History]
"""The histories of one graph by variant: only folded (False), or with all (True) or some of the writes of parts as copies."""


def prepare_fusion(graph: Graph) -> History:
    """Fold, functionalize and clean up a graph to be fused: `fuse` without the groups.

    It runs `fold-constants,functionalize,dce,fold-tensors`, and after the first records only those that changed
    something; but writes of parts stay in place where no kernel would compute the whole.

    >>> import irscope as irs
    >>> g = irs.parse('''graph(%x : Float(4)):
    ...   %a : Float(4) = aten::neg(%x)
    ...   %b : Float(4) = aten::relu_(%a)
    ...   return (%b)''')
    >>> prepare_fusion(g)
    <History of 'graph': fold-constants, functionalize>
    """
    return without_collector(prepare, as_graph(graph, "prepare-fusion"), FusionOptions())


def prepare(graph: Graph, options: FusionOptions, step: Callable[[], object] | None = None, made: Prepared | None = None) -> History:
    """Run the passes and return their history; `step` is called `PREPARING` times, which is enough for nearly all graphs. `made`
    caches the graph's histories, so that calls with other wishes need not compute them again."""
    step = step or _nothing
    made = {} if made is None else made
    if False not in made:
        made[False] = _then(History(graph), fold_constants(graph))
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


def _then(history: History, record: PassRecord) -> History:
    """The history with one more pass, if that changed something; the first pass is always recorded."""
    leads(record)
    return history.then(record) if record.edits or not history.records else history
