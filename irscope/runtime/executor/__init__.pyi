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
from .entry_guard import (
    GUARD_ERRORS,
    Guard,
)
from .kernel_calls import (
    GroupKernels,
    Kernels,
)
from .peak_memory import (
    PeakMemory,
)
from .single_kernel import (
    direct_call,
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
    "Guard",
    "CompiledKernel",
    "PeakMemory",
    "Stamp",
    "StampedCode",
    "GroupKernels",
    "Kernels",
    "BoundProgram",
    "GUARD_ERRORS",
    "as_torch",
    "direct_call",
    "flatten",
    "stamp_cost",
]
