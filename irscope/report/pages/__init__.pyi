from .branches import (
    Branch,
    Branches,
)
from .details import (
    Inspection,
)
from .exploration import (
    Exploration,
)
from .history_view import (
    HistoryInspection,
)
from .measurements import (
    Measurements,
)
from .program_index import (
    ProgramIndex,
)

__all__ = [
    "Branch",
    "Branches",
    "Exploration",
    "HistoryInspection",
    "Inspection",
    "Measurements",
    "ProgramIndex",
]
