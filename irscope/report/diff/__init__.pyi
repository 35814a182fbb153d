from .program_diff import (
    ProgramDiff,
    diff,
)

__all__ = [
    "ProgramDiff",
    "diff",
]
