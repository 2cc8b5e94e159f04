"""Adds vectors on the GPU that numba finds."""

import numpy as np
from numba import cuda


@cuda.jit
def add(x, y, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] + y[i]


x = np.arange(1_000_000, dtype=np.float32)
out = cuda.device_array_like(x)
add[(x.size + 255) // 256, 256](cuda.to_device(x), cuda.to_device(x), out)
assert np.array_equal(out.copy_to_host(), x + x)
print("sums are right, on", cuda.get_current_device().name)
