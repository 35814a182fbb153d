from .evidence import Remark
from .ranking import remarks_of

__all__ = ["Remark", "remarks_of"]
