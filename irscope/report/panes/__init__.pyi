from .alias_view import AliasViews
from .beside_view import repeat_view
from .fusion_view import fusion_sentence, neighbour_views, no_remarks, planner_renaming, remarks_table
from .kernel_view import KernelTexts, KernelViews
from .memory_view import LayoutViews, buffer_view, buffers_with_views, layout_view, memory_view
from .profile_view import Heat, profile_view, time_sentence
from .program_view import classes_picture, points_to_picture
from .same_view import SameViews, class_sentence, class_views, with_coarser_steps

__all__ = [
    "AliasViews", "Heat", "KernelTexts", "KernelViews", "LayoutViews", "SameViews", "buffer_view", "buffers_with_views",
    "class_sentence", "class_views", "classes_picture", "fusion_sentence", "layout_view", "memory_view",
    "neighbour_views", "no_remarks", "planner_renaming", "points_to_picture", "profile_view", "remarks_table",
    "repeat_view", "time_sentence", "with_coarser_steps",
]  # fmt: skip
