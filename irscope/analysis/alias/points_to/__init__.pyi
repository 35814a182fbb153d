from .delta import CannotFollow as CannotFollow
from .elements import MIXED as MIXED
from .graph import Label as Label, Place as Place, PointsTo as PointsTo, Reachability as Reachability
from .graph import Write as Write, closure as closure, points_to_dot as points_to_dot
from .mod_ref import EVERYTHING as EVERYTHING, WAITS as WAITS, Access as Access, Accesses as Accesses, Kind as Kind, ModRef as ModRef
from .mod_ref import OrderConflict as OrderConflict
from .update import Knowledge as Knowledge, Record as Record, follow as follow
from .walk import build as build, callees_of as callees_of, is_inlined as is_inlined, summaries as summaries
