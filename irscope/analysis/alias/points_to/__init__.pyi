from .builder import OutsideMemory as OutsideMemory, PointsToBuilder as PointsToBuilder, Shared as Shared
from .elements import MIXED as MIXED, TENSOR as TENSOR, Elements as Elements, Structure as Structure, Structures as Structures
from .elements import class_name as class_name
from .graph import Called as Called, Effects as Effects, Label as Label, MemoryClass as MemoryClass, Place as Place, PointsTo as PointsTo
from .graph import Reachability as Reachability, Reasons as Reasons, Write as Write, closure as closure
from .graph import collapse_cycles as collapse_cycles, make_place as make_place, memory_classes as memory_classes
from .graph import points_to_dot as points_to_dot
