"""Names of the inputs and the results of a joint graph."""

from __future__ import annotations

import inspect
import operator
import re
from collections.abc import Sequence
from typing import Any

__all__ = ["apart", "argument_names", "call_results"]


def apart(name: str, taken: set[str]) -> str:
    """Returns the name, with a number if it is taken, and marks it as taken."""
    plain, number = name, 0
    while name in taken:
        number += 1
        name = f"{plain}_{number}"
    taken.add(name)
    return name


def call_results(module: Any, returned: Sequence[Any], names: Sequence[str]) -> None:
    """Records the names of the results. A value returned several times has the first name; an input keeps its own."""
    clear = set()
    for node, name in zip(returned, names, strict=True):
        if not name or not hasattr(node, "target") or node.op != "call_function":
            continue
        producer, index = (node.args[0], node.args[1]) if node.target is operator.getitem else (node, 0)
        if index not in producer.meta.setdefault("result_names", {}):
            producer.meta["result_names"][index] = name
            clear.add(name)
    for node in module.graph.nodes:
        if node.op == "call_function" and node.name in clear:
            node.name += "_"


def argument_names(source: Any, args: Sequence[Any], pytree: Any, nameless: str = "arg") -> list[str]:
    """Returns a name per leaf, such as `x`, `state.h`, `layers.0`: the parameter and the path to the leaf."""
    try:
        parameters = list(inspect.signature(getattr(source, "forward", source)).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    plain = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    names = []
    for (first, *rest), _ in pytree.tree_flatten_with_path(tuple(args))[0]:
        head = plain[first.idx] if first.idx < len(plain) else f"{nameless}{first.idx}"
        parts = [str(getattr(key, "key", getattr(key, "idx", getattr(key, "name", key)))) for key in rest]
        names.append(".".join(re.sub(r"\W", "_", part) for part in (head, *parts)))
    return names
