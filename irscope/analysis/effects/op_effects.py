"""Effects of ops that their schemas do not state: unseen code, ending the program, reading less than everything."""

from __future__ import annotations

from typing import Literal

from irscope.ops.schema import has_side_effects
from irscope.ops.traits import CHANGES_RANDOM_STATE, KNOWN_SIDE_EFFECTS, READ_NOTHING, READS_SHAPE, SHAPE_READERS, STOPS

__all__ = [
    "ReadKind",
    "changes_random_state",
    "is_fully_opaque",
    "is_stopping",
    "reads_by_name",
]

ReadKind = Literal["deep", "shape", "object", "none"]
"""deep: data and shape of every tensor operand and of all contents of containers. shape: tensors' shapes alone.
object: which objects a container holds, not those objects. none: operands are passed on unread."""


def is_stopping(op: str) -> bool:
    """Whether the op may end the program, after which only memory that the caller can reach still matters."""
    return op in STOPS


def reads_by_name(op: str) -> ReadKind | None:
    """How an op with a rule of its own reads its operands, whatever its schema; None for ordinary ops."""
    if op in READ_NOTHING:
        return "none"
    if op.startswith("prim::") and (op in READS_SHAPE or op in SHAPE_READERS):
        return "shape"
    return "object" if op == "prim::ListUnpack" else None


def is_fully_opaque(op: str) -> bool:
    """Whether the op runs unseen code: calls, other processes, later execution."""
    return has_side_effects(op) and op not in KNOWN_SIDE_EFFECTS


def changes_random_state(op: str) -> bool:
    """Whether the op may set or use the random state without a draw that the graph sees."""
    return op in CHANGES_RANDOM_STATE or is_fully_opaque(op)
