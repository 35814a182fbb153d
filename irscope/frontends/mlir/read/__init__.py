"""What MLIR's types, attributes, constants and locations are here."""
