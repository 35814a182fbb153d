from .cost_table import (
    DEFAULT_BANDWIDTH,
    group_table,
    group_traffic,
)
from .remarks import (
    remarks_of,
)
from .why_not import (
    same_group,
    why_apart,
)

__all__ = [
    "DEFAULT_BANDWIDTH",
    "group_table",
    "group_traffic",
    "remarks_of",
    "same_group",
    "why_apart",
]
