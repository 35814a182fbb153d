from .bound_program import as_torch
from .code import Code, Slots, Stamp, flatten, stamp_cost
from .executable import Executable, compile_graph
from .peak_memory import PeakMemory, blocks_of

__all__ = [
    "Code", "Executable", "PeakMemory", "Slots", "Stamp", "as_torch", "blocks_of", "compile_graph", "flatten",
    "stamp_cost",
]  # fmt: skip
