from .emit import emit_cuda as emit_cuda, emit_module as emit_module, entry_names as entry_names, kernel_name as kernel_name
from .instruction_text import cheaper_for_halves as cheaper_for_halves
from .schedule import MULTIPROCESSORS as MULTIPROCESSORS, Schedule as Schedule, alignments as alignments, grid_of as grid_of
from .schedule import held_values as held_values, likely_schedule as likely_schedule, parts_of as parts_of, schedule_of as schedule_of
from .schedule import stride_arguments as stride_arguments
