from .compiler import Host as Host, loaded as loaded, object_file as object_file, with_llvm as with_llvm
from .device import CpuDevice as CpuDevice
from .launch import estimated_seconds as estimated_seconds
from .native_loop import NativeLoop as NativeLoop
