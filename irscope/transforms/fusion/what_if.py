"""Groups the same program differently: another policy, ops apart or together, other assumptions about the inputs.

Earlier wishes still apply, except those that a new wish contradicts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import islice
from typing import Protocol

from irscope._base.verdict import Verdict
from irscope.analysis.assumptions import assume
from irscope.errors import ArgumentError
from irscope.ir import Graph, Node, Value
from irscope.transforms.fusion.planning import FusionOptions, Plans
from irscope.transforms.fusion.policy import Score, Sides, Subject, Wishes, policy_of, subject_of
from irscope.transforms.fusion.wished_merges import Named, some
from irscope.transforms.history import History

__all__ = ["Known", "what_if"]


class Known(Protocol):
    """The part of `Fusion` that `what_if` needs."""

    @property
    def original(self) -> Graph: ...
    @property
    def history(self) -> History: ...
    @property
    def _plans(self) -> Plans: ...
    @property
    def _fused_at(self) -> int: ...
    def _find(self, subject: Named) -> Node | Verdict: ...
    def _maker(self, subject: Value | str) -> Node | None: ...
    def _inside(self, subject: Named) -> list[Node] | None: ...


def what_if(
    fusion: Known, *, step: int | None, policy: str | Score | None, forbid: Iterable[Iterable[Named]], force: Iterable[Iterable[Named]],
    opaque: Iterable[Named], distinct: bool | Iterable[Value | str] | None, channels_last: Iterable[Value | str],
) -> tuple[FusionOptions, Graph | None]:  # fmt: skip
    """Returns the new options, and the program if it is another one. Raises ArgumentError or UnknownName."""
    options = fusion._plans.options
    apart = tuple(_sides(fusion, each) for each in forbid)
    together = tuple(_several(fusion, each) for each in force)
    before = options.wishes
    wishes = Wishes(
        forbid=(*(each for each in before.forbid if not any(_opposed(fusion, each, new) for new in together)), *apart),
        force=(*(each for each in before.force if not any(_opposed(fusion, new, each) for new in apart)), *together),
        opaque=tuple(dict.fromkeys((*before.opaque, *_alone(fusion, opaque)))),
        kept=before.kept if step is None else _kept(fusion, step),
    )
    options = replace(options, wishes=wishes, policy=options.policy if policy is None else policy_of(policy))
    lying = some(channels_last)
    return options, assume(fusion.original, distinct=distinct, channels_last=lying) if distinct is not None or lying else None


def _several(fusion: Known, several: Iterable[Named]) -> tuple[Subject, ...]:
    """The nodes of one wish; a group means its members."""
    if isinstance(several, str | Value) or not isinstance(several, Iterable | Node):
        raise ArgumentError(f"{several!r} is not a pair of nodes", hint='give a list of pairs: forbid=[("a", "b")]')
    each = [several] if isinstance(several, Node) else several
    found = tuple(dict.fromkeys(subject for named in each for subject in _subjects(fusion, named)))
    if len(found) < 2:
        raise ArgumentError("a pair is two different nodes", hint='give a list of pairs: forbid=[("a", "b")]')
    return found


def _sides(fusion: Known, several: Iterable[Named]) -> Sides:
    """The sides to keep apart: single nodes, or for several groups the members of each."""
    if isinstance(several, str | Value | Node) or not isinstance(several, Iterable):
        return tuple((each,) for each in _several(fusion, several))
    listed = list(several)
    sides = [tuple(_subjects(fusion, named)) for named in listed]
    if len(sides) < 2 or all(len(side) == 1 for side in sides):
        return tuple((each,) for each in _several(fusion, listed))
    taken: set[Subject] = set()
    for place, side in sorted(enumerate(sides), key=lambda side: len(side[1])):  # one member can be kept apart from the rest of its group
        sides[place] = tuple(each for each in side if each not in taken)
        taken.update(side)
    return tuple(sides)


def _alone(fusion: Known, opaque: Iterable[Named]) -> Iterable[Subject]:
    for named in some(opaque):
        every = isinstance(named, str) and "::" in named and "#" not in named and not named.startswith("%")
        found = [node for graph in (fusion._plans.rules.graph, fusion.original) for node in graph.nodes() if every and node.op == named]
        for each in found or [named]:
            yield from _subjects(fusion, each)


def _subjects(fusion: Known, named: Named) -> Iterable[Subject]:
    graph = fusion._plans.rules.graph
    meant: Sequence[Named] = fusion._inside(named) or [named]
    for each in meant:
        node = fusion._find(each)
        if not isinstance(node, Verdict):
            yield subject_of(graph, node)
            continue
        removed = each if isinstance(each, Node) else fusion._maker(each)
        if removed is None or removed not in fusion.original.position:
            raise ArgumentError(node.because, hint="name a value that the program computes when it runs")
        yield subject_of(fusion.original, removed)


def _opposed(fusion: Known, apart: Sides, together: tuple[Subject, ...]) -> bool:
    """Whether two nodes that one wish puts together are on two sides of another wish, in the current graph."""
    place = {_now(fusion, subject): side for side, several in enumerate(apart) for subject in several}
    return len({place[node] for subject in together if (node := _now(fusion, subject)) in place}) > 1


def _now(fusion: Known, subject: Subject) -> Node | Verdict:
    return fusion._find(subject.node.outputs[0] if subject.node.outputs else subject.node)


def _kept(fusion: Known, step: int) -> tuple[tuple[Subject, Subject], ...]:
    """The merges done up to a step of the history. Raises ArgumentError for a step that does not exist."""
    history, plans = fusion.history, fusion._plans
    last = history.count
    if not -last - 1 <= step <= last:
        raise ArgumentError(f"there is no step {step}", hint=f"the history has steps 0 to {last}")
    done = max(0, step % (last + 1) - history.ends[fusion._fused_at])
    graph = plans.rules.graph
    merges = (
        (subject_of(graph, plan.block.nodes[merge.producer]), subject_of(graph, plan.block.nodes[merge.consumer]))
        for plan in plans.by_block.values() for merge in plan.kept_merges(max(plans.options.min_size, 2))
    )  # fmt: skip
    return tuple(islice(merges, done))
