from .corrections import (
    bundled_texts,
    corrected,
    define_positional,
    torch_schemas,
    without_tensors,
)
from .op import (
    Category,
    Effect,
    Op,
    choose_overload,
    counts_with_results,
    define,
    draws_random_numbers,
    effect_of_schema,
    has_side_effects,
    may_end_in_results,
    statistics_flag,
)
from .parser import (
    parse_schema,
)

__all__ = [
    "Category",
    "Effect",
    "Op",
    "bundled_texts",
    "choose_overload",
    "corrected",
    "counts_with_results",
    "define",
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
