#!/usr/bin/env python3
"""Short kernels under a limit of time: what a program has whose host, and not the device, sets the pace.

    python3 short.py                                         # alone
    reef exec --memory 100GiB -- python3 short.py            # intercepted, without a limit of time
    reef exec --compute 60% -- python3 short.py

200 kernels of about 1 µs, launched one by one and as a graph. Prints the rate, and the time of a
launch in the median of batches, which a wait for the share doesn't touch above 50 %.
"""

import statistics
import time

import torch

KERNELS, STEPS, SECONDS = 200, 4, 2.5

numbers = torch.ones(1 << 16, device="cuda")


def launches():
    for _ in range(KERNELS):
        numbers.add_(1)


def rate(name, work):
    for _ in range(20):
        work()
    torch.cuda.synchronize()
    begin, batches = time.perf_counter(), []
    while time.perf_counter() - begin < SECONDS:
        start = time.perf_counter()
        for _ in range(STEPS):
            work()
        torch.cuda.synchronize()
        batches.append(time.perf_counter() - start)
    total = time.perf_counter() - begin
    launch = statistics.median(batches) * 1e6 / (STEPS * KERNELS)
    print(f"{name}: {STEPS * len(batches) / total:.1f} a second, {launch:.2f} µs a kernel in the median", flush=True)


stream = torch.cuda.Stream()
with torch.cuda.stream(stream):
    launches()
torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    launches()

rate("launched one by one", launches)
rate("as a graph", graph.replay)
