from .kernel_cache import (
    CacheCounts,
    KernelCache,
    ObjectStore,
    user_cache_directory,
    user_stores,
)
from .miss_log import (
    MissLog,
)
from .protocol import (
    NO_MEMORY,
    Availability,
    Device,
    HostKernel,
    HostPlan,
    Kernel,
    OnlyLaunch,
    PreparedPlan,
    device,
    devices,
)

__all__ = [
    "Availability",
    "CacheCounts",
    "Device",
    "HostKernel",
    "HostPlan",
    "Kernel",
    "KernelCache",
    "MissLog",
    "NO_MEMORY",
    "ObjectStore",
    "OnlyLaunch",
    "PreparedPlan",
    "device",
    "devices",
    "user_cache_directory",
    "user_stores",
]
