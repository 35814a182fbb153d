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
    MAX_ARGUMENTS,
    MAX_NODES,
    Limits,
)
from .obstacles import (
    candidate_of,
    explain_path,
    obstacle,
    ties_along,
)
from .registry import (
    POLICIES,
    Policy,
    policy_of,
)
from .wishes import (
    NO_WISHES,
    NOWHERE,
    PlacedWishes,
    Sides,
    Subject,
    Wishes,
    subject_of,
)

__all__ = [
    "BlockPlan",
    "Candidate",
    "Limits",
    "MAX_ARGUMENTS",
    "MAX_NODES",
    "NO_WISHES",
    "NOWHERE",
    "PlacedWishes",
    "Sides",
    "POLICIES",
    "Policy",
    "Score",
    "Subject",
    "Wishes",
    "candidate_of",
    "explain_path",
    "obstacle",
    "ties_along",
    "policy_of",
    "subject_of",
]
