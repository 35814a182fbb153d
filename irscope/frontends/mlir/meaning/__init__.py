"""Which MLIR ops compute the same as torch's, and which nodes express them?"""
