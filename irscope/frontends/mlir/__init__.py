"""How does a program in MLIR get in? `sources` is the entry that the registry of frontends asks."""
