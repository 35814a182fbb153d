"""Prints a points-to graph in Graphviz's language: a box for each class of memory, with the values in it.

Solid arrows say "may be", dashed ones "holds"; written memory is drawn bold, memory from outside with a double
border. Values that share memory with no other are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from irscope._base.escaping import in_dot
from irscope.analysis.alias.points_to import Label, PointsTo, Reachability

_FULL = 8
"""Boxes with more values than this name only the first ones."""


class MemoryClass(NamedTuple):
    """One box of the picture."""

    place: int
    names: list[str]
    """The values of the class, or else its places in words."""
    is_written: bool
    is_outside: bool
    targets: tuple[int, ...]
    """The classes that it may be."""
    holds: tuple[int, ...]


def memory_classes(
    points_to: PointsTo, reach: Reachability, words: Callable[[Label], str], starts: Iterable[int] | None = None
) -> list[MemoryClass]:
    """The classes reachable from and held by some classes, or all of them. `words` names values and places."""
    members, class_of = _members(points_to), points_to.class_of
    if starts is None:
        starts = {class_of[element] for element in points_to.element_of.values()}
    return [
        MemoryClass(
            place, list(dict.fromkeys(map(words, members.get(place, ())))) or ["="],  # another name of its arrow's target
            bool(points_to.is_written[place]), place in points_to.outside,
            tuple(points_to.targets.get(place, ())), tuple(reach.inside.get(place, ())),
        )
        for place in sorted(_below_and_inside(points_to, reach, starts))
    ]  # fmt: skip


def points_to_dot(classes: Iterable[MemoryClass]) -> str:
    """DOT text of some classes of memory."""
    boxes, arrows = [], []
    for place, names, is_written, is_outside, targets, holds in classes:
        more = [f"and {len(names) - _FULL} more"] if len(names) > _FULL else []
        look = ["label=" + in_dot("\n".join([*names[:_FULL], *more]))]
        look += ["penwidth=2"] if is_written else []
        look += ["peripheries=2"] if is_outside else []
        boxes.append(f"  c{place} [{' '.join(look)}]")
        arrows += [f"  c{place} -> c{target}" for target in targets]
        arrows += [f"  c{place} -> c{held} [style=dashed]" for held in holds]
    head = ["digraph {", '  node [shape=box style=rounded fontname="Helvetica" fontsize=10]']
    return "\n".join([*head, *boxes, *arrows, "}"])


def _members(points_to: PointsTo) -> Mapping[int, list[Label]]:
    """The labels of each class: its values; if it has none, the places of its elements."""
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
