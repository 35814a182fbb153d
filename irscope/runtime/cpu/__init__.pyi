from .compiler import Host as Host, loaded as loaded, object_file as object_file, with_llvm as with_llvm
from .device import CpuDevice as CpuDevice
from .launch import LaunchCall as LaunchCall, estimated_seconds as estimated_seconds
from .native_loop import NOTHING as NOTHING, STATUS as STATUS, Call as Call, NativeLoop as NativeLoop
from .native_loop import Place as Place, Work as Work, words_of as words_of
from .layers import held_bytes as held_bytes, kernel_of as kernel_of, library_seconds as library_seconds, prepared_layer as prepared_layer
