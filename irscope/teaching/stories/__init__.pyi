from .recorded import (
    Story,
)
from .telling import (
    story,
)

__all__ = [
    "Story",
    "story",
]
