from .record import READERS as READERS, Decisions as Decisions, decisions as decisions
