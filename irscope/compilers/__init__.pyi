from .record import Decisions as Decisions, decisions as decisions
