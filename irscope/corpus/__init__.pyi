from .findings import Survey
from .run import survey

__all__ = ["Survey", "survey"]
