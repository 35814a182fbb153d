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
    "POLICIES",
    "Policy",
    "Score",
    "Subject",
    "Wishes",
    "candidate_of",
    "explain_path",
    "obstacle",
    "policy_of",
    "subject_of",
]
