"""Kernels of Triton and numba for the corpus: `kernels.py FOLDER` writes PTX and CUBINs there."""
import os
import sys

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def layer_norm(x, out, weight, bias, columns, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    row = tl.program_id(0) * columns
    values = tl.load(x + row + at, mask=at < columns, other=0.0)
    mean = tl.sum(values, axis=0) / columns
    centred = tl.where(at < columns, values - mean, 0.0)
    scale = tl.rsqrt(tl.sum(centred * centred, axis=0) / columns + 1e-5)
    values = centred * scale * tl.load(weight + at, mask=at < columns) + tl.load(bias + at, mask=at < columns)
    tl.store(out + row + at, values, mask=at < columns)


@triton.jit
def attention(q, k, v, out, length, scale, BLOCK: tl.constexpr, WIDTH: tl.constexpr):
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    width = tl.arange(0, WIDTH)
    base = tl.program_id(1) * length * WIDTH
    query = tl.load(q + base + row[:, None] * WIDTH + width[None, :])
    best = tl.full((BLOCK,), -float("inf"), tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    acc = tl.zeros((BLOCK, WIDTH), tl.float32)
    for start in range(0, length, BLOCK):
        column = start + tl.arange(0, BLOCK)
        keys = tl.load(k + base + column[None, :] * WIDTH + width[:, None])
        scores = tl.dot(query, keys) * scale
        higher = tl.maximum(best, tl.max(scores, axis=1))
        part = tl.exp(scores - higher[:, None])
        keep = tl.exp(best - higher)
        total = total * keep + tl.sum(part, axis=1)
        values = tl.load(v + base + column[:, None] * WIDTH + width[None, :])
        acc = acc * keep[:, None] + tl.dot(part.to(tl.float16), values)
        best = higher
    tl.store(out + base + row[:, None] * WIDTH + width[None, :], (acc / total[:, None]).to(tl.float16))


@triton.jit
def gather_rows(table, index, out, columns, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    row = tl.load(index + tl.program_id(0))
    values = tl.load(table + row * columns + at, mask=at < columns)
    tl.store(out + tl.program_id(0) * columns + at, values, mask=at < columns)


@triton.jit
def scatter_add(x, index, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out + tl.load(index + at, mask=at < n), tl.load(x + at, mask=at < n), mask=at < n)


@triton.jit
def dropout(x, out, n, seed, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    keep = tl.rand(seed, at) > 0.5
    tl.store(out + at, tl.where(keep, tl.load(x + at, mask=at < n) * 2, 0.0), mask=at < n)


@triton.jit
def cumulative(x, out, columns, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    row = tl.program_id(0) * columns
    tl.store(out + row + at, tl.cumsum(tl.load(x + row + at, mask=at < columns), 0), mask=at < columns)


@triton.jit
def adam(weight, gradient, first, second, n, rate, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    g = tl.load(gradient + at, mask=mask)
    m = tl.load(first + at, mask=mask) * 0.9 + g * 0.1
    v = tl.load(second + at, mask=mask) * 0.999 + g * g * 0.001
    tl.store(first + at, m, mask=mask)
    tl.store(second + at, v, mask=mask)
    tl.store(weight + at, tl.load(weight + at, mask=mask) - rate * m / (tl.sqrt(v) + 1e-8), mask=mask)


@triton.jit
def grouped(pointers, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    source = tl.load(pointers + tl.program_id(1)).to(tl.pointer_type(tl.float32))
    tl.store(out + tl.program_id(1) * n + at, tl.load(source + at, mask=at < n), mask=at < n)


F, H, I, L = "*fp32", "*fp16", "*i32", "*i64"
TRITON = [
    (layer_norm, {"x": F, "out": F, "weight": F, "bias": F, "columns": "i32"}, {"BLOCK": 1024}),
    (attention, {"q": H, "k": H, "v": H, "out": H, "length": "i32", "scale": "fp32"}, {"BLOCK": 64, "WIDTH": 64}),
    (gather_rows, {"table": F, "index": I, "out": F, "columns": "i32"}, {"BLOCK": 512}),
    (gather_rows, {"table": F, "index": L, "out": F, "columns": "i64"}, {"BLOCK": 512}),
    (scatter_add, {"x": F, "index": I, "out": F, "n": "i32"}, {"BLOCK": 256}),
    (dropout, {"x": F, "out": F, "n": "i32", "seed": "i32"}, {"BLOCK": 256}),
    (cumulative, {"x": F, "out": F, "columns": "i32"}, {"BLOCK": 1024}),
    (adam, {"weight": F, "gradient": F, "first": F, "second": F, "n": "i32", "rate": "fp32"}, {"BLOCK": 256}),
    (grouped, {"pointers": L, "out": F, "n": "i32"}, {"BLOCK": 256}),
]


def write_triton(folder, own):
    kernels = [(kernel, signature, {"BLOCK": block}, False) for kernel, signature, block in own.KERNELS.values()]
    kernels += [(kernel, signature, constants, False) for kernel, signature, constants in TRITON]
    # With aligned arguments, as PyTorch has them, loads are copies that are under way for several rounds.
    matmul, signature, _ = own.KERNELS["matmul"]
    kernels += [(matmul, signature, {"BLOCK": 64}, True), (*TRITON[1], True)]
    for number, (kernel, signature, constants, is_aligned) in enumerate(kernels):
        for arch in (80, 90):
            types = signature | {name: "constexpr" for name in constants}
            whole = [at for at, kind in enumerate(signature.values()) if kind == "i32" or kind[0] == "*"]
            attributes = {(at,): [["tt.divisibility", 16]] for at in whole} if is_aligned else {}
            source = ASTSource(fn=kernel, signature=types, constexprs=constants, attrs=attributes)
            made = triton.compile(source, target=GPUTarget("cuda", arch, 32))
            name = f"{folder}/triton-{kernel.__name__}-{number}-{arch}"
            # Both hold the same text; one of the architectures is read from the CUBIN.
            if arch == 90:
                open(name + ".cubin", "wb").write(made.asm["cubin"])
            else:
                open(name + ".ptx", "w").write(made.asm["ptx"])


def write_numba(folder):
    from numba import cuda, float32, int32, void

    def scale(x, out):
        i = cuda.grid(1)
        if i < x.size:
            out[i] = x[i] * 2

    def in_place(x):
        i = cuda.grid(1)
        if i < x.size:
            x[i] += 1

    def reduce(x, out):
        shared = cuda.shared.array(128, float32)
        i, t = cuda.grid(1), cuda.threadIdx.x
        shared[t] = x[i] if i < x.size else 0
        cuda.syncthreads()
        half = 64
        while half > 0:
            if t < half:
                shared[t] += shared[t + half]
            cuda.syncthreads()
            half //= 2
        if t == 0:
            cuda.atomic.add(out, 0, shared[0])

    def stencil(x, out):
        i, j = cuda.grid(2)
        if 0 < i < x.shape[0] - 1 and 0 < j < x.shape[1] - 1:
            out[i, j] = (x[i - 1, j] + x[i + 1, j] + x[i, j - 1] + x[i, j + 1]) / 4

    def greatest(x, out):
        i = cuda.grid(1)
        if i < x.size:
            cuda.atomic.max(out, 0, x[i])

    def locked(lock, out):
        while cuda.atomic.cas(lock, 0, 0, 1) != 0:
            pass
        out[0] += 1
        cuda.threadfence()
        cuda.atomic.exch(lock, 0, 0)

    one, two, whole = float32[:], float32[:, :], int32[:]
    for function, types in [(scale, (one, one)), (in_place, (one,)), (reduce, (one, one)), (stencil, (two, two)),
                            (greatest, (one, one)), (locked, (whole, one))]:
        text, _ = cuda.compile(function, void(*types), cc=(9, 0), device=False, abi="numba", output="ptx")
        open(f"{folder}/numba-{function.__name__}.ptx", "wb" if isinstance(text, bytes) else "w").write(text)


def main():
    folder, own = sys.argv[1:]
    sys.path.insert(0, own)
    import tensors

    write_triton(folder, tensors)
    write_numba(folder)


main()
