"""Benchmarks for users: `irscope bench --suite kernels|models|gpu`. See `irscope.bench.suite`."""
