from .arena import (
    Arena,
)
from .bound_program import (
    BoundProgram,
    as_torch,
)
from .bytecode import (
    flatten,
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
)
from .stamped_code import (
    StampedCode,
    stamp_cost,
)
from .trace_codegen import (
    Stamp,
)

__all__ = [
    "Arena",
    "CompiledKernel",
    "PeakMemory",
    "Stamp",
    "StampedCode",
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
