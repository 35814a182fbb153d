from .remark import (
    Remark,
)
from .remarks_of import (
    remarks_of,
)

__all__ = [
    "Remark",
    "remarks_of",
]
