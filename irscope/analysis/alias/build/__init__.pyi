from .delta import CannotFollow
from .mod_ref import EVERYTHING, WAITS, Access, Accesses, Kind, ModRef, OrderConflict
from .update import Knowledge, Record, follow
from .walk import build, callees_of, is_inlined, summaries

__all__ = [
    "Access", "Accesses", "CannotFollow", "EVERYTHING", "Kind", "Knowledge", "ModRef", "OrderConflict", "Record", "WAITS",
    "build", "callees_of", "follow", "is_inlined", "summaries",
]  # fmt: skip
