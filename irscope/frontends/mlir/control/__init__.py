"""What becomes of MLIR's control flow: ifs and loops, from structured ops and from jumps."""
