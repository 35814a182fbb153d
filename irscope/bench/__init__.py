"""Benchmarks as a user runs them: `irscope bench --suite kernels|models|gpu`. See `irscope.bench.suite`."""
