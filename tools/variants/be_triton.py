#!/usr/bin/env python3
"""A best-effort program for tools/variants/processes.py: products by Triton, again and again.

    be_triton.py LAUNCHES SECONDS       LAUNCHES of 0: as many as fit into SECONDS

Prints a sum over the bits of the results at its end.
"""

import sys
import time

import torch
import triton
import triton.language as tl

SIDE = 8192


@triton.jit
def matmul(a, b, c, n, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    tiles = tl.cdiv(n, N)
    row, column = tl.program_id(0) // tiles, tl.program_id(0) % tiles
    rows, columns, ks = row * M + tl.arange(0, M), column * N + tl.arange(0, N), tl.arange(0, K)
    total = tl.zeros((M, N), dtype=tl.float32)
    for k in range(0, n, K):
        left = tl.load(a + rows[:, None] * n + (k + ks)[None, :])
        right = tl.load(b + (k + ks)[:, None] * n + columns[None, :])
        total = tl.dot(left, right, total)
    at = c + rows[:, None] * n + columns[None, :]
    tl.store(at, (total + 0.5 * tl.load(at).to(tl.float32)).to(tl.float16))


def product():
    """A function that launches the kernel, and the array that it changes."""
    torch.manual_seed(7)
    a, b = (torch.randn(SIDE, SIDE, device="cuda", dtype=torch.float16) / 90 for _ in range(2))
    c = torch.zeros(SIDE, SIDE, device="cuda", dtype=torch.float16)

    def once():
        matmul[((SIDE // 128) * (SIDE // 128),)](a, b, c, SIDE, 128, 128, 64, num_warps=8)

    once()
    torch.cuda.synchronize()
    c.zero_()
    torch.cuda.synchronize()
    return once, c


def run(launches, seconds, c, once):
    """Calls `once` with the part of the run that has passed, and prints what the run was."""
    print("begin", flush=True)
    begin, done, part = time.monotonic(), 0, 0.0
    while part < 1:
        once(part)
        done += 1
        if done % 4 == 0:
            torch.cuda.synchronize()
        part = done / launches if launches else (time.monotonic() - begin) / seconds
    torch.cuda.synchronize()
    passed = time.monotonic() - begin
    bits = c.view(torch.int16).to(torch.int64)
    digest = (bits * torch.arange(1, SIDE + 1, device="cuda")).sum().item()
    print(f"end launches {done} seconds {passed:.4f} digest {digest & (1 << 64) - 1:016x}", flush=True)


def main():
    once, c = product()
    run(int(sys.argv[1]), float(sys.argv[2]), c, lambda _: once())


if __name__ == "__main__":
    main()
