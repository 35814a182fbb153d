"""Who parses MLIR: upstream's bindings, in a process that may die of a file."""
