from .accuracy import not_returned as not_returned
from .benchmark import compare as compare, side_by_side as side_by_side
from .comparison import Comparison as Comparison
from .conditions import check_threads as check_threads, threads_for as threads_for, with_threads as with_threads
