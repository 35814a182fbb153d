from .kernel_cache import (
    CacheCounts,
    KernelCache,
    ObjectStore,
    user_cache_directory,
    user_stores,
)
from .protocol import (
    NO_MEMORY,
    Availability,
    Device,
    Kernel,
    PreparedPlan,
    device,
    devices,
)

__all__ = [
    "Availability",
    "CacheCounts",
    "Device",
    "Kernel",
    "KernelCache",
    "NO_MEMORY",
    "ObjectStore",
    "PreparedPlan",
    "device",
    "devices",
    "user_cache_directory",
    "user_stores",
]
