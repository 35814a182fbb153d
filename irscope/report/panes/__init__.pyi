from .alias_view import AliasViews as AliasViews, MemoryPictures as MemoryPictures, path_step as path_step
from .beside_view import repeat_beside as repeat_beside, repeat_view as repeat_view
from .compiler_view import compiler_kernels as compiler_kernels, decided_view as decided_view
from .compiler_view import differences_table as differences_table
from .fusion_view import fusion_sentence as fusion_sentence, neighbour_views as neighbour_views, no_remarks as no_remarks
from .fusion_view import planner_renaming as planner_renaming, remarks_table as remarks_table
from .kernel_view import KernelViews as KernelViews
from .memory_view import LayoutViews as LayoutViews, buffer_view as buffer_view, buffers_with_views as buffers_with_views
from .memory_view import memory_view as memory_view, own_memory_view as own_memory_view
from .profile_view import Heat as Heat, profile_view as profile_view, time_sentence as time_sentence
from .program_view import classes_picture as classes_picture, graph_view as graph_view
from .same_view import SameViews as SameViews, class_sentence as class_sentence, class_views as class_views
from .same_view import with_coarser_steps as with_coarser_steps
