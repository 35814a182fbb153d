from .cuda_pace import (
    Pace,
    code_sizes,
    cuda_facts,
    pace_of,
)
from .kernel_facts import (
    COPY,
    KernelFacts,
    cpu_facts,
    unknown_facts,
)
from .machine_code import (
    hot_loops,
    ptx_lines,
    tie_assembly,
    tie_sass,
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
    "ptx_lines",
    "tie_assembly",
    "tie_sass",
    "unknown_facts",
    "with_locations",
]
