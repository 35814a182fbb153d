from .cpu_bounds import (
    COPY,
    cpu_facts,
    hot_loops,
    unknown_facts,
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
    ptx_lines,
    tied_assembly,
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
    "ptx_lines",
    "tied_sass",
    "unknown_facts",
    "with_locations",
]
