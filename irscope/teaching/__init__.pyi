from . import quiz
from .stories import story

__all__ = ["quiz", "story"]
