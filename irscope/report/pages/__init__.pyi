from .branches import Branch, Branches
from .details import Inspection
from .exploration import Exploration
from .parts import Page, ProgramPage, history_page
from .program_index import ProgramIndex

__all__ = ["Branch", "Branches", "Exploration", "Inspection", "Page", "ProgramIndex", "ProgramPage", "history_page"]
