from .details import (
    Inspection,
)
from .exploration import (
    Exploration,
)
from .history_view import (
    HistoryInspection,
)

__all__ = [
    "Exploration",
    "HistoryInspection",
    "Inspection",
]
