"""Which ops of MLIR compute what ops of torch compute, and how that is written."""
