from .dedup_view import (
    class_sentence,
    class_views,
    with_coarser_steps,
)
from .repeats_view import (
    repeat_view,
)
from .same_view import (
    SameViews,
)

__all__ = [
    "SameViews",
    "class_sentence",
    "class_views",
    "repeat_view",
    "with_coarser_steps",
]
