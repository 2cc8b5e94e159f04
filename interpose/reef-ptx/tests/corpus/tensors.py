"""Triton's kernels of the corpus."""
import triton
import triton.language as tl


@triton.jit
def matmul(a, b, c, m, n, k, BLOCK: tl.constexpr):
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inner = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    for start in range(0, k, BLOCK):
        left = tl.load(a + row[:, None] * k + (start + inner)[None, :])
        right = tl.load(b + (start + inner)[:, None] * n + column[None, :])
        total = tl.dot(left, right, total)
    tl.store(c + row[:, None] * n + column[None, :], total.to(tl.float16))


@triton.jit
def softmax(x, out, columns, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    row = tl.program_id(0) * columns
    values = tl.load(x + row + at, mask=at < columns, other=-float("inf"))
    values = tl.exp(values - tl.max(values, axis=0))
    tl.store(out + row + at, values / tl.sum(values, axis=0), mask=at < columns)


@triton.jit
def locked_sum(x, out, lock, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + at, mask=at < n, other=0.0)
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    tl.store(out, tl.load(out) + tl.sum(values, axis=0))
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


@triton.jit
def scale_in_place(x, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + at, tl.load(x + at, mask=at < n) * 2, mask=at < n)


KERNELS = {
    "matmul": (matmul, {"a": "*fp16", "b": "*fp16", "c": "*fp16", "m": "i32", "n": "i32", "k": "i32"}, 32),
    "softmax": (softmax, {"x": "*fp32", "out": "*fp32", "columns": "i32"}, 512),
    "locked_sum": (locked_sum, {"x": "*fp32", "out": "*fp32", "lock": "*i32", "n": "i32"}, 256),
    "scale_in_place": (scale_in_place, {"x": "*fp32", "n": "i32"}, 256),
}
