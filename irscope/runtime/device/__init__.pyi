from .kernel_cache import KernelCache as KernelCache, ObjectStore as ObjectStore
from .kernel_cache import user_cache_directory as user_cache_directory, user_stores as user_stores
from .miss_log import MissLog as MissLog
from .protocol import NO_MEMORY as NO_MEMORY, Availability as Availability, Device as Device, HostKernel as HostKernel
from .protocol import PreparedPlan as PreparedPlan, device as device, devices as devices
