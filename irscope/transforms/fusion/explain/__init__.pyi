from .cost_table import (
    DEFAULT_BANDWIDTH,
    Cost,
    group_table,
    group_traffic,
    program_cost,
)
from .remarks import (
    remarks_of,
)
from .why_not import (
    same_group,
    why_apart,
)

__all__ = [
    "Cost",
    "DEFAULT_BANDWIDTH",
    "group_table",
    "group_traffic",
    "program_cost",
    "remarks_of",
    "same_group",
    "why_apart",
]
