from .executable import (
    Executable,
    compile_graph,
)

__all__ = [
    "Executable",
    "compile_graph",
]
