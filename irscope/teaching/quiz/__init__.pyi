from .asking import KINDS, alias, fusion, mixed, moves, same, sheets, speed, views
from .question import Judgement, Option, Question, Remarked
from .quiz import Quiz, score

__all__ = [
    "Judgement", "KINDS", "Option", "Question", "Quiz", "Remarked", "alias", "fusion", "mixed", "moves", "same",
    "score", "sheets", "speed", "views",
]  # fmt: skip
