from .best_first import (
    Score,
)
from .block_plan import (
    BlockPlan,
)
from .candidate import (
    Candidate,
)
from .group_state import (
    Limits,
)
from .registry import (
    POLICIES,
    Policy,
    policy_of,
)

__all__ = [
    "BlockPlan",
    "Candidate",
    "Limits",
    "POLICIES",
    "Policy",
    "Score",
    "policy_of",
]
