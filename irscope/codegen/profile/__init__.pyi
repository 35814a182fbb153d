from .cpu_bounds import (
    COPY,
    cpu_facts,
    hot_loops,
    untold_facts,
)
from .cuda_bounds import (
    Pace,
    code_sizes,
    cuda_facts,
    pace_of,
)
from .kernel_facts import (
    KernelFacts,
)
from .line_mapping import (
    tied_assembly,
    tied_ptx,
    tied_sass,
    with_locations,
)

__all__ = [
    "COPY",
    "KernelFacts",
    "Pace",
    "code_sizes",
    "cpu_facts",
    "cuda_facts",
    "hot_loops",
    "pace_of",
    "tied_assembly",
    "tied_ptx",
    "tied_sass",
    "untold_facts",
    "with_locations",
]
