from .finding import find_regions as find_regions
from .outline import outline_nested as outline_nested, outline_regions as outline_regions
from .pieces import RegionPieces as RegionPieces, region_pieces as region_pieces, scope_pieces as scope_pieces
from .repeat import Repeat as Repeat
