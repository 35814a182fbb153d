"""The order in which models are examined: slow ones first, so that the last one to end is a short one.

A model's time is unknown before it is examined. What is known is its time in an earlier survey of the same folder, and that among
models of one kind (files of one suffix, one function with several arguments) the larger one is rarely faster. So models with a known
time come last, ordered by it; those without one come first, in turns in which each kind contributes its largest. A kind with few models
is then done early, and the smallest of a kind with many are left for the end. A wrong guess costs time, but changes no result.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from irscope.corpus.sources import Source

__all__ = ["longest_first"]


def longest_first(sources: Sequence[Source], seconds: Mapping[str, float]) -> list[Source]:
    """Returns the sources in the order in which to start them; `seconds` are those of an earlier survey, by name.

    >>> sources = [Source("small", "", family=".onnx", size=10), Source("large", "", family=".onnx", size=20)]
    >>> sources += [Source("short", ""), Source("long", ""), Source("net", "", family="net", size=3)]
    >>> [source.name for source in longest_first(sources, {"short": 1.0, "long": 9.0})]
    ['large', 'net', 'small', 'long', 'short']
    """
    known = [source for source in sources if source.name in seconds]
    return [*_in_turns(source for source in sources if source.name not in seconds), *sorted(known, key=lambda s: -seconds[s.name])]


def _in_turns(sources: Iterable[Source]) -> list[Source]:
    kinds: dict[str, list[Source]] = defaultdict(list)
    for source in sources:
        kinds[source.family].append(source)
    turns = [
        (turn, source) for members in kinds.values() for turn, source in enumerate(sorted(members, key=lambda member: -member.size))
    ]
    return [source for _, source in sorted(turns, key=lambda pair: pair[0])]
