"""Determines how often a `stablehlo.while` runs, if its counter goes from one constant to another by ones.

JAX emits this for `scan` and `fori_loop`. The condition must be just `counter < bound`, and the body must return the
counter plus one in its place.
"""

from __future__ import annotations

from typing import Any

from irscope.ir import TensorData

__all__ = ["known_rounds"]


def known_rounds(operation: Any, initial: Any, reading: Any) -> int | None:
    """Returns the trip count; None if it is not certain. `initial(place)` returns the elements of an initial value, if
    known."""
    test, body = (region.blocks[0] for region in operation.regions)
    *_, end = test.operations
    compare = _producer(end.operation.operands[0], "stablehlo.compare")
    if compare is None or "LT" not in str(compare.attributes["comparison_direction"]):
        return None
    if any(op.operation.name not in ("stablehlo.constant", "stablehlo.compare", "stablehlo.return") for op in test.operations):
        return None
    counter, bound = compare.operands
    places = [place for place, argument in enumerate(test.arguments) if argument == counter]
    limit = _number(bound, reading)
    if len(places) != 1 or limit is None:
        return None
    (place,) = places
    *_, end = body.operations
    step = _producer(end.operation.operands[place], "stablehlo.add")
    if step is None:
        return None
    operands = list(step.operands)
    if body.arguments[place] not in operands:
        return None
    operands.remove(body.arguments[place])
    start = initial(place)
    if _number(operands[0], reading) != 1 or start is None or start.size != 1 or start.dtype.kind not in "iu":
        return None
    return max(0, limit - int(start.reshape(-1)[0]))


def _producer(value: Any, name: str) -> Any:
    """Returns the op that produces a value, if it has this name."""
    owner = getattr(value, "owner", None)
    made = getattr(owner, "operation", owner)
    return made if getattr(made, "name", "") == name else None


def _number(value: Any, reading: Any) -> int | None:
    """Returns the value of an integer constant of rank 0; None for anything else."""
    made = _producer(value, "stablehlo.constant")
    data = reading.attributes.read(made.attributes["value"]) if made is not None else None
    if not isinstance(data, TensorData) or data.array is None or data.shape or data.array.dtype.kind not in "iu":
        return None
    return int(data.array)
