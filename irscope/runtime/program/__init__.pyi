from .bound_program import as_torch as as_torch
from .code import Code as Code, Slots as Slots, Stamp as Stamp, flatten as flatten, stamp_cost as stamp_cost
from .executable import Executable as Executable, compile_graph as compile_graph
from .arena import PeakMemory as PeakMemory, blocks_of as blocks_of
