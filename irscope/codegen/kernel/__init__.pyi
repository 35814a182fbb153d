from .accumulator import (
    accumulated_dtype,
    neutral_value,
)
from .canonical_launch import (
    canonical_launch,
)
from .in_place import (
    may_overwrite,
    overwriting,
)
from .loop_nest import (
    arrange_loops,
)
from .memory_traffic import (
    bytes_per_point,
    operations_per_point,
    traffic_of,
)
from .online_softmax import (
    EXPONENTIALS,
    GATHERING,
    use_online_softmax,
)
from .reduction_passes import (
    Pass,
    ReductionNest,
    reduction_nest,
)
from .source_text import (
    NO_LINE,
    NO_NODE,
    Lines,
    SourceText,
)
from .spec import (
    BROADCAST,
    ITEM_SIZE,
    STRIDED,
    TILE_ROWS,
    UNIT,
    Instruction,
    KernelSpec,
    Launch,
    LaunchPlan,
    Operand,
    Result,
    constant_bits,
    constant_value,
    is_float,
    row_limit,
    stride_classes,
)
from .spec_graph import (
    spec_attributes,
    spec_graph,
)
from .split_reduction import (
    SplitReduction,
)
from .tiled_reads import (
    with_tiled_reads,
)

__all__ = [
    "BROADCAST",
    "EXPONENTIALS",
    "GATHERING",
    "ITEM_SIZE",
    "Instruction",
    "KernelSpec",
    "Launch",
    "LaunchPlan",
    "Lines",
    "NO_LINE",
    "NO_NODE",
    "Operand",
    "Pass",
    "ReductionNest",
    "Result",
    "STRIDED",
    "SourceText",
    "SplitReduction",
    "TILE_ROWS",
    "UNIT",
    "accumulated_dtype",
    "arrange_loops",
    "bytes_per_point",
    "canonical_launch",
    "constant_bits",
    "constant_value",
    "is_float",
    "may_overwrite",
    "neutral_value",
    "operations_per_point",
    "overwriting",
    "reduction_nest",
    "row_limit",
    "spec_attributes",
    "spec_graph",
    "stride_classes",
    "use_online_softmax",
    "traffic_of",
    "with_tiled_reads",
]
