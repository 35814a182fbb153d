from .differences import differences as differences, kernels_of as kernels_of, nearest_pair as nearest_pair, pairs_of as pairs_of
from .explain import Cost as Cost, free_nodes as free_nodes, memory_of as memory_of
from .fuse_pass import FREEZING as FREEZING, frozen as frozen, fuse as fuse, fuse_groups as fuse_groups
from .fuse_pass import fuse_rebuilding as fuse_rebuilding, is_frozen as is_frozen, prepare_fusion as prepare_fusion
from .fusion_result import GROUPING as GROUPING, Fusion as Fusion
from .outline import group_alone as group_alone, group_pools as group_pools, group_turns as group_turns, group_views as group_views
from .planning import POLICIES as POLICIES, Named as Named, Score as Score
from .given import GivenFusion as GivenFusion, GivenGroup as GivenGroup, Reason as Reason, given_fusion as given_fusion
