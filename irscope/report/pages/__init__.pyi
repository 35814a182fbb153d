from .branches import Branch as Branch, Branches as Branches
from .details import Inspection as Inspection
from .exploration import Exploration as Exploration
from .parts import Page as Page, ProgramPage as ProgramPage, history_page as history_page
from .program_index import ProgramIndex as ProgramIndex
