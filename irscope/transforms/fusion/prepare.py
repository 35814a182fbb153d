"""What is done to a program before its ops are grouped: the passes that `fuse` begins with.

Known numbers become constants, in-place ops pure, what nobody reads goes, and small known tensors become constants. One
thing here depends on what fuses: a write of a part becomes a copy of the whole only where one kernel makes the whole
(`irscope.transforms.fusion.outline.inplace_parts`). That is decided on the program in which every part is a copy; mostly
all of them stay, and that program is the result. Otherwise those that do not are left in place, and it is asked again
what the policy makes of the others: it may tear a chain of copies apart for the sake of another group.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal

from irscope._base.concurrency.restored import without_collector
from irscope.analysis.per_graph import leads
from irscope.ir import Graph, Value
from irscope.ops.exactness import Exact
from irscope.transforms.base import PassRecord
from irscope.transforms.cleanup import fold_constants, fold_tensors, remove_dead_nodes
from irscope.transforms.functionalize import functionalize
from irscope.transforms.fusion.outline import parts_copied, split_chains
from irscope.transforms.fusion.planning import MAX_ARGUMENTS, MAX_NODES, Wanted, plans_of, the_graph, wanted
from irscope.transforms.fusion.policy import Score
from irscope.transforms.history import History

__all__ = ["PREPARING", "Prepared", "prepare_fusion", "prepared"]

PREPARING: Final = 5
"""Steps of the progress of `prepared`."""

Prepared = dict[bool | frozenset[Value], History]
"""What became of one graph: folded only, and with all (True) or some of the writes of parts as copies."""


def prepare_fusion(
    graph: Graph, *, policy: str | Score = "greedy", min_size: int = 2, max_arguments: int = MAX_ARGUMENTS,
    max_nodes: int = MAX_NODES, exact: Exact = None,
) -> History:  # fmt: skip
    """Fold, make pure and clean up what is about to be fused with these options: `fuse` without the groups.

    It is `fold-constants,functionalize,dce,fold-tensors`, of which those are recorded that found something to do; but
    writes of parts stay in place where no kernel would make the whole.

    >>> import irscope as irs
    >>> g = irs.parse('''graph(%x : Float(4)):
    ...   %a : Float(4) = aten::neg(%x)
    ...   %b : Float(4) = aten::relu_(%a)
    ...   return (%b)''')
    >>> prepare_fusion(g)
    <History of 'graph': fold-constants, functionalize>
    """
    asked = wanted(policy, min_size, max_arguments, max_nodes, exact)
    return without_collector(prepared, the_graph(graph, "prepare-fusion"), asked)


def prepared(graph: Graph, asked: Wanted, step: Callable[[], object] | None = None, made: Prepared | None = None) -> History:
    """The passes that were run over the graph; `step` is called `PREPARING` times for what nearly all graphs need. `made` has what
    was made of it before, and what other wishes need not make again."""
    step = step or _nothing
    made = {} if made is None else made
    if False not in made:
        made[False] = _then(History(graph), fold_constants(graph))
    folded = made[False]
    step()
    copied: Literal[True] | frozenset[Value] = True
    while True:
        if copied not in made:
            made[copied] = _made_pure(folded, copied, step)
        found = made[copied]
        stay, are_all = parts_copied(found.final, folded.final, exact=asked.exact)
        step()
        step = _nothing  # to be asked again is rare
        if stay and (are_all or copied is not True):
            apart = split_chains(found.final, plans_of(found, asked).by_block, stay, asked.min_size)
            stay, are_all = stay - apart, are_all and not apart
        fewer = stay if copied is True else stay & copied
        if are_all or fewer == copied:
            return found
        copied = fewer


def _made_pure(history: History, scatter: Literal[True] | frozenset[Value], step: Callable[[], object]) -> History:
    """The program without the in-place ops that nobody can tell from pure ones, and what can be done then."""
    pure = functionalize(history.final, scatter=scatter)
    step()
    if pure.edits:  # a write that nobody sees is gone, and what was written may be too
        history = _then(history, pure)
        history = _then(history, remove_dead_nodes(history.final))
    step()
    history = _then(history, fold_tensors(history.final))
    step()
    return history


def _nothing() -> None:
    """A step that is not counted."""


def _then(history: History, record: PassRecord) -> History:
    """The history with one pass more, if that changed something; the first is always there."""
    leads(record)
    return history.then(record) if record.edits or not history.records else history
