from .emit import emit_cuda, emit_module, entry_names, kernel_name
from .instruction_text import cheaper_for_halves
from .schedule import (
    MULTIPROCESSORS,
    Schedule,
    alignments,
    grid_of,
    held_values,
    likely_schedule,
    parts_of,
    schedule_of,
    stride_arguments,
)

__all__ = [
    "MULTIPROCESSORS",
    "Schedule",
    "alignments",
    "cheaper_for_halves",
    "emit_cuda",
    "emit_module",
    "entry_names",
    "grid_of",
    "held_values",
    "kernel_name",
    "likely_schedule",
    "parts_of",
    "schedule_of",
    "stride_arguments",
]
