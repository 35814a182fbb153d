"""Running programs: devices, compiled kernels, the reference interpreter, measurements."""
