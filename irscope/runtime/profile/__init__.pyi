from .measuring import Measured as Measured, measure_program as measure_program
from .profile_result import Profile as Profile
from .readings import NodeRow as NodeRow, Share as Share, place as place, shares as shares
from .trace_reading import TraceReading as TraceReading, read as read
from .way import Instruction as Instruction
