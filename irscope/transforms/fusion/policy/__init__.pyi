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
