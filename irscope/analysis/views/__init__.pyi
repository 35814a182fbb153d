from .assumed import Demand, Layouts, as_demand, demands_of, following, with_new_strides, with_strides_of
from .recommend import Recommendation
from .view_aliases import ViewAliases

__all__ = [
    "Demand",
    "Layouts",
    "Recommendation",
    "ViewAliases",
    "as_demand",
    "demands_of",
    "following",
    "with_new_strides",
    "with_strides_of",
]
