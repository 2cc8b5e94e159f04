"""What recording costs an eager PyTorch program: recording.py NETWORK SECONDS, under REEF_PROFILE=table,range.

Runs of a network in turns of which every other one is recorded, in an order that begins anew at random for each pair; the
time of the recorded turn over the plain one next to it is one figure, and their median is said, with the interval that has
it in 95 of 100 cases (by ranks, whatever their distribution is). Without REEF_PROFILE the same turns show what this can
tell.
"""
import ctypes
import os
import random
import statistics
import sys
import time
import warnings

import torch
import torchvision

RUNS = 10
warnings.filterwarnings("ignore")
name, seconds = sys.argv[1], float(sys.argv[2])
driver = ctypes.CDLL(None)  # as the program sees it: the library under test
random.seed(7)
torch.manual_seed(5)
model = getattr(torchvision.models, name)(weights=None).cuda().half().eval()
x = torch.randn(1, 3, 224, 224, device="cuda", dtype=torch.half)
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # this thread alone: others have started


def turn(records):
    """Milliseconds of a run, on average."""
    if records:
        driver.cuProfilerStart()
    begin = time.perf_counter()
    with torch.no_grad():
        for _ in range(RUNS):
            model(x)
    torch.cuda.synchronize()
    took = time.perf_counter() - begin
    if records:
        driver.cuProfilerStop()
    return took / RUNS * 1e3


def interval(figures):
    """Median, and the ranks around it that have it in 95 of 100 cases."""
    figures, n = sorted(figures), len(figures)
    off = 0.98 * n**0.5
    return statistics.median(figures), figures[max(int(n / 2 - off), 0)], figures[min(int(n / 2 + off) + 1, n - 1)]


for _ in range(5):
    turn(False)
plain, recorded, end = [], [], time.monotonic() + seconds
while time.monotonic() < end:
    first = random.random() < 0.5
    pair = {first: turn(first), (not first): turn(not first)}
    plain.append(pair[False])
    recorded.append(pair[True])
middle, low, high = interval([100 * (b / a - 1) for a, b in zip(plain, recorded)])
runs = [statistics.median(of) for of in (plain, recorded)]
print(f"  {name} eager, {len(plain)} pairs of turns of {RUNS} runs: plain {runs[0]:.3f} ms, recorded {runs[1]:.3f} ms a run;")
print(f"  recorded over plain {middle:+.2f} %, 95 % interval {low:+.2f} to {high:+.2f} %")
