from .benchmark import compare, side_by_side
from .comparison import Comparison

__all__ = ["Comparison", "compare", "side_by_side"]
