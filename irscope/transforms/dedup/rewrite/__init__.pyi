from .canonical_body import normal_form as normal_form
from .finding import find_regions as find_regions
from .groups import merge_groups as merge_groups, merge_groups_of_all as merge_groups_of_all
from .modules import merge_modules as merge_modules, obstacles as obstacles
from .outline import RegionPieces as RegionPieces, outline_nested as outline_nested, region_pieces as region_pieces
from .parameters import ClassHoles as ClassHoles, HoleRow as HoleRow, class_holes as class_holes, proof as proof
from .recommendation import Recommendation as Recommendation, compile_seconds as compile_seconds, cost_of as cost_of
from .recommendation import measured_seconds as measured_seconds, price as price, recommend as recommend, text_bytes as text_bytes
from .repeat import Repeat as Repeat
from .scopes import scope_pieces as scope_pieces
