"""Which ops work on whole matrices, windows and sequences: products, convolutions, pooling, norms, recurrences, reductions?"""
