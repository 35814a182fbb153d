from .recorded import (
    Story,
)
from .steps import (
    Step,
)
from .telling import (
    story,
)

__all__ = [
    "Step",
    "Story",
    "story",
]
