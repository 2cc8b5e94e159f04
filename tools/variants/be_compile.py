#!/usr/bin/env python3
"""A best-effort program for tools/variants/processes.py: steps of training by torch.compile, whose kernels are Triton's.

    be_compile.py LAUNCHES SECONDS      LAUNCHES of 0: as many steps as fit into SECONDS

Prints a sum over the bits of the parameters at its end.
"""

import sys
import time

import torch


def main():
    steps, seconds = int(sys.argv[1]), float(sys.argv[2])
    torch.manual_seed(7)
    torch.use_deterministic_algorithms(True, warn_only=True)
    width, rows = 4096, 65536
    scale = torch.randn(width, device="cuda", requires_grad=True)
    shift = torch.randn(width, device="cuda", requires_grad=True)
    x = torch.randn(rows, width, device="cuda")

    def loss(x, scale, shift):
        y = torch.nn.functional.gelu(torch.nn.functional.layer_norm(x, (width,)) * scale + shift)
        return (torch.softmax(y, dim=1) * x).square().mean()

    compiled = torch.compile(loss)
    update = torch.optim.SGD([scale, shift], lr=1.0)

    def once():
        update.zero_grad()
        compiled(x, scale, shift).backward()
        update.step()

    once()
    torch.cuda.synchronize()
    print("begin", flush=True)
    begin, done = time.monotonic(), 0
    while done < steps if steps else time.monotonic() - begin < seconds:
        once()
        done += 1
        if done % 4 == 0:
            torch.cuda.synchronize()
    torch.cuda.synchronize()
    passed = time.monotonic() - begin
    bits = torch.cat([scale, shift]).detach().view(torch.int32).to(torch.int64)
    digest = (bits * torch.arange(1, 2 * width + 1, device="cuda")).sum().item()
    print(f"end launches {done} seconds {passed:.4f} digest {digest & (1 << 64) - 1:016x}", flush=True)


main()
