"""The ladder of relations: ten relations, each of which forgets one more property than the one before.

    text       the same print, names of values and entry points included
    alpha      names of values and of entry points are forgotten
    symbols    private functions and globals may have other names, if what the names mean corresponds
    order      independent nodes in any order, operands of a commutative op either way
    arguments  parameters in any order
    constants  numbers and constant tensors that are data of an op may differ: holes
    extents    sizes may differ, if equal ones stay equal, distinct ones distinct, and ones stay ones
    free       sizes may differ in any way
    layout     so may strides
    dtype      so may element types

The op's schema decides which arguments may be holes: a `Scalar` or a `float` is data, a `SymInt` is a size, `int dim` and
`bool keepdim` are structure and never a hole.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, get_args

from irscope.errors import ArgumentError

__all__ = ["CONSTANT_STEPS", "GIVES_UP", "HOLED", "RANK", "RELATIONS", "ConstantStep", "Relation", "known_relation", "known_step"]

Relation = Literal["text", "alpha", "symbols", "order", "arguments", "constants", "extents", "free", "layout", "dtype"]
RELATIONS: Final[tuple[Relation, ...]] = get_args(Relation)
"""The relations from the finest to the coarsest."""
ConstantStep = Literal["tied", "equal"]
CONSTANT_STEPS: Final[tuple[ConstantStep, ...]] = get_args(ConstantStep)
"""The relations of constants (`irscope.transforms.dedup.constants`), from the finer to the coarser."""
RANK: Final[Mapping[str, int]] = {relation: place for place, relation in enumerate(RELATIONS)}
"""The place of each relation in the ladder."""
HOLED: Final = frozenset(RELATIONS[RANK["constants"] :])
"""The relations under which equal pieces may differ in holes."""
GIVES_UP: Final[Mapping[str, str]] = {
    "text": "nothing",
    "alpha": "names of values and entry points",
    "symbols": "names of private functions and globals",
    "order": "the order of independent nodes and of commutative operands, and computing the same thing twice",
    "arguments": "the order of parameters: callers pass them in another",
    "constants": "constants known to the compiler: folding, strength reduction",
    "extents": "known sizes: unrolling, vector widths without a remainder, divisibility",
    "free": "which sizes are equal, and which are one: broadcasting is decided at run time",
    "layout": "known strides: contiguous loads",
    "dtype": "the element type: one body for each type, or conversions",
    "tied": "nothing",
    "equal": "that one of them could be changed and not the other",
}
"""What a compiler no longer knows of one piece that replaces all pieces that are the same by a relation."""


def known_relation(relation: Any) -> Relation:
    """Returns a relation of pieces. Raises ArgumentError for anything else."""
    if relation not in RELATIONS:
        raise ArgumentError(f"there is no relation {relation!r}", hint=f"choose one of {', '.join(RELATIONS)}")
    return relation  # type: ignore[no-any-return]


def known_step(step: Any) -> ConstantStep:
    """Returns a relation of constants. Raises ArgumentError for anything else."""
    if step not in CONSTANT_STEPS:
        raise ArgumentError(f"there is no relation {step!r} of constants", hint=f"choose one of {', '.join(CONSTANT_STEPS)}")
    return step  # type: ignore[no-any-return]
