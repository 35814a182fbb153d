from . import quiz

__all__ = [
    "quiz",
]
