from .alias_view import (
    AliasViews,
)
from .fusion_view import (
    fusion_sentence,
    neighbour_views,
    no_remarks,
    planner_renaming,
    remarks_table,
)
from .heat import (
    Heat,
)
from .kernel_languages import (
    KernelTexts,
)
from .kernel_view import (
    KernelViews,
)
from .memory.buffer_view import (
    buffer_view,
    buffers_with_views,
    layout_view,
)
from .memory.memory_view import (
    memory_view,
)
from .memory.tensor_layouts import (
    LayoutViews,
)
from .profile_view import (
    profile_view,
    time_sentence,
)
from .same.dedup_view import (
    class_sentence,
    class_views,
    with_coarser_steps,
)
from .same.repeats_view import (
    repeat_view,
)
from .same.same_view import (
    SameViews,
)

__all__ = [
    "buffer_view",
    "buffers_with_views",
    "layout_view",
    "AliasViews",
    "Heat",
    "SameViews",
    "KernelTexts",
    "LayoutViews",
    "KernelViews",
    "class_sentence",
    "class_views",
    "with_coarser_steps",
    "fusion_sentence",
    "memory_view",
    "neighbour_views",
    "no_remarks",
    "planner_renaming",
    "profile_view",
    "remarks_table",
    "time_sentence",
    "repeat_view",
]
