from .record import Decisions as Decisions
from .registry import READERS as READERS, decisions as decisions
