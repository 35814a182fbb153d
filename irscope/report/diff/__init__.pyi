from .program_diff import (
    Change,
    ProgramDiff,
    diff,
)

__all__ = [
    "Change",
    "ProgramDiff",
    "diff",
]
