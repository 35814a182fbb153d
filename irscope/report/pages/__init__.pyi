from .branches import Branch, Branches
from .details import Inspection
from .exploration import Exploration
from .history_view import history_page
from .parts import Page, ProgramPage
from .program_index import ProgramIndex

__all__ = ["Branch", "Branches", "Exploration", "Inspection", "Page", "ProgramIndex", "ProgramPage", "history_page"]
