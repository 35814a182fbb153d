from .measuring import (
    Measured,
    measured,
)
from .profile_result import (
    Profile,
)
from .rows import (
    NodeRow,
    place,
)
from .tables import (
    Share,
    shares,
)
from .way import (
    Instruction,
)

__all__ = [
    "Instruction",
    "Measured",
    "NodeRow",
    "Profile",
    "Share",
    "measured",
    "place",
    "shares",
]
