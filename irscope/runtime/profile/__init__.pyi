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

__all__ = [
    "Measured",
    "Profile",
    "Readings",
    "measured",
    "time_words",
]
