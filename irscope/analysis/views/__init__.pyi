from .assumed import Demand as Demand, Layouts as Layouts, as_demand as as_demand, demands_of as demands_of, following as following
from .assumed import with_new_strides as with_new_strides, with_strides_of as with_strides_of
from .recommend import Recommendation as Recommendation
from .view_aliases import ViewAliases as ViewAliases
