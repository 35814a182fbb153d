from .classes_picture import (
    classes_picture,
)
from .points_to_picture import (
    points_to_picture,
)

__all__ = [
    "classes_picture",
    "points_to_picture",
]
