"""A points-to graph as text in Graphviz's language: a box for each class of memory, with the values that are it.

Solid arrows say "may be", dashed ones "holds"; what somebody writes is drawn bold, memory from outside with a double
border. Values that share nothing with anything are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from irscope._base.escaping import in_dot
from irscope.analysis.alias.points_to import Label, PointsTo, Reachability

__all__ = ["points_to_dot"]

_FULL = 8
"""Boxes with more values than this name the first ones."""


def points_to_dot(
    points_to: PointsTo, reach: Reachability, words: Callable[[Label], str], starts: Iterable[int] | None = None
) -> str:
    """DOT text of the classes below and inside some classes, or of all of them. `words` names values and places."""
    members, class_of = _members(points_to), points_to.class_of
    if starts is None:
        starts = {class_of[element] for element in points_to.element_of.values()}
    shown = sorted(_below_and_inside(points_to, reach, starts))
    lines = ["digraph {", '  node [shape=box style=rounded fontname="Helvetica" fontsize=10]']
    for place in shown:
        names = list(dict.fromkeys(map(words, members.get(place, ())))) or ["="]  # stands for what its arrow leads to
        more = [f"and {len(names) - _FULL} more"] if len(names) > _FULL else []
        look = ["label=" + in_dot("\n".join([*names[:_FULL], *more]))]
        look += ["penwidth=2"] if points_to.is_written[place] else []
        look += ["peripheries=2"] if place in points_to.outside else []
        lines.append(f"  c{place} [{' '.join(look)}]")
    for place in shown:
        lines += [f"  c{place} -> c{target}" for target in points_to.targets.get(place, ())]
        lines += [f"  c{place} -> c{held} [style=dashed]" for held in reach.inside.get(place, ())]
    return "\n".join([*lines, "}"])


def _members(points_to: PointsTo) -> Mapping[int, list[Label]]:
    """What each class is called: its values; if it has none, the places that its elements stand for."""
    found: dict[int, list[Label]] = {}
    for value, element in points_to.element_of.items():
        found.setdefault(points_to.class_of[element], []).append(value)
    named = set(found)
    for element, place in enumerate(points_to.class_of):
        if place not in named:
            found.setdefault(place, []).append(points_to.labels[element])
    return found


def _below_and_inside(points_to: PointsTo, reach: Reachability, starts: Iterable[int]) -> set[int]:
    found = set(starts)
    todo = list(found)
    while todo:
        here = todo.pop()
        fresh = [
            there for there in (*points_to.targets.get(here, ()), *reach.inside.get(here, ())) if there not in found
        ]
        found.update(fresh)
        todo.extend(fresh)
    return found
