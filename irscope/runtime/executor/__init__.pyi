from .arena import (
    Arena,
)
from .bound_program import (
    BoundProgram,
    as_torch,
)
from .code import (
    Code,
    Slots,
    Stamp,
    flatten,
    stamp_cost,
)
from .compiled_kernel import (
    CompiledKernel,
)
from .guarded_call import (
    MISSED,
    KnownCalls,
    kernel_call,
    only_group,
)
from .in_place_ops import (
    in_place_form,
)
from .kernel_calls import (
    GroupKernels,
    Kernels,
)
from .peak_memory import (
    PeakMemory,
    blocks_of,
)

__all__ = [
    "Arena",
    "Code",
    "Slots",
    "CompiledKernel",
    "PeakMemory",
    "blocks_of",
    "Stamp",
    "GroupKernels",
    "Kernels",
    "BoundProgram",
    "MISSED",
    "KnownCalls",
    "as_torch",
    "in_place_form",
    "kernel_call",
    "only_group",
    "flatten",
    "stamp_cost",
]
