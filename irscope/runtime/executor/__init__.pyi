from .bound_program import (
    Program,
    as_torch,
)
from .bytecode import (
    flatten,
)
from .compiled_kernel import (
    CompiledKernel,
)
from .entry_guard import (
    STRANGE,
    Admit,
)
from .kernel_calls import (
    GroupKernels,
    Kernels,
    has_kernels,
)
from .peak_memory import (
    Footprint,
)
from .single_kernel import (
    direct_call,
)

__all__ = [
    "Admit",
    "CompiledKernel",
    "Footprint",
    "GroupKernels",
    "Kernels",
    "Program",
    "STRANGE",
    "as_torch",
    "direct_call",
    "flatten",
    "has_kernels",
]
