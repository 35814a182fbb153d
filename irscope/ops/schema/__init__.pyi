from .core_schemas import (
    bundled_texts,
    define_positional,
    without_tensors,
)
from .corrections import (
    corrected,
)
from .effects import (
    effect_of_schema,
    has_side_effects,
    statistics_flag,
)
from .op import (
    Category,
    Effect,
    Op,
)
from .overload_resolution import (
    choose_overload,
    counts_with_results,
    may_end_in_results,
)
from .parser import (
    parse_schema,
)
from .randomness import (
    draws_random_numbers,
)
from .torch_registry import (
    torch_schemas,
)

__all__ = [
    "Category",
    "Effect",
    "Op",
    "bundled_texts",
    "choose_overload",
    "corrected",
    "counts_with_results",
    "define_positional",
    "draws_random_numbers",
    "effect_of_schema",
    "has_side_effects",
    "may_end_in_results",
    "parse_schema",
    "statistics_flag",
    "torch_schemas",
    "without_tensors",
]
