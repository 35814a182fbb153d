from .program_diff import ProgramDiff, diff
from .states import AliasSteps, Gone, gone_records, lifetimes
from .timeline import program_name, program_stops

__all__ = ["AliasSteps", "Gone", "ProgramDiff", "diff", "gone_records", "lifetimes", "program_name", "program_stops"]
