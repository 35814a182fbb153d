from . import quiz as quiz
from .stories import story as story
