"""How is MLIR parsed? By upstream's bindings, first in a process that may crash on a file."""
