from .compiler import Host, loaded, object_file, with_llvm
from .device import CpuDevice
from .launch import estimated_seconds

__all__ = ["CpuDevice", "Host", "estimated_seconds", "loaded", "object_file", "with_llvm"]
