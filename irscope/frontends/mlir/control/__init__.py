"""How does MLIR's control flow become ifs and loops: from structured ops, and from jumps?"""
