from .benchmark import compare as compare, side_by_side as side_by_side
from .comparison import Comparison as Comparison
