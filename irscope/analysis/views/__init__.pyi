from .assumed import Demand as Demand, as_demand as as_demand, following as following, with_new_strides as with_new_strides
from .recommend import Recommendation as Recommendation
from .view_aliases import ViewAliases as ViewAliases
