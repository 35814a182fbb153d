from .advice import (
    Remark,
)
from .measuring import (
    Measured,
    measured,
)
from .profile_result import (
    Profile,
)
from .readings import (
    Readings,
    time_words,
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
    "Readings",
    "Remark",
    "Share",
    "measured",
    "place",
    "shares",
    "time_words",
]
