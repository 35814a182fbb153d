from .measuring import Measured, measure_program
from .profile_result import Profile
from .readings import NodeRow, place
from .tables import Share, shares
from .trace_reading import TraceReading, read
from .way import Instruction

__all__ = [
    "Instruction", "Measured", "NodeRow", "Profile", "Share", "TraceReading", "measure_program", "place", "read",
    "shares",
]  # fmt: skip
