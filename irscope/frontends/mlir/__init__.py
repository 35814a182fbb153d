"""How is an MLIR program read? The registry of frontends enters through `source`."""
