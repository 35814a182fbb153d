from .alias_by_step import (
    AliasSteps,
)
from .gone_records import (
    Gone,
    gone_records,
)
from .node_lifetimes import (
    lifetimes,
)
from .programs import (
    program_name,
    program_stops,
)

__all__ = [
    "AliasSteps",
    "Gone",
    "gone_records",
    "lifetimes",
    "program_name",
    "program_stops",
]
