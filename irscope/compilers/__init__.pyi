from .reading import decisions as decisions
from .record import Decisions as Decisions
