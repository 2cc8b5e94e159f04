"""An ordinary PyTorch program: an inference network that says what it computed and how long it took.

net.py NETWORK eager|graph|train RATE SECONDS [COUNT]: RATE 0 is a closed loop; with COUNT that many runs instead of
SECONDS, and the number of kernels and graphs that CUPTI saw in them.
"""
import hashlib
import json
import os
import sys
import time
import warnings

import torch
import torchvision

warnings.filterwarnings("ignore")
name, mode, rate, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3]), float(sys.argv[4])
count = int(sys.argv[5]) if len(sys.argv) > 5 else 0
torch.manual_seed(5)
torch.backends.cudnn.benchmark = False
torch.use_deterministic_algorithms(True, warn_only=True)
model = getattr(torchvision.models, name)(weights=None).cuda().half().to(memory_format=torch.channels_last)
x = torch.randn(1 if mode != "train" else 8, 3, 224, 224, device="cuda", dtype=torch.half)
x = x.to(memory_format=torch.channels_last)


def digest(tensor):
    return hashlib.sha256(tensor.detach().float().cpu().numpy().tobytes()).hexdigest()[:16]


def prepare():
    if mode == "train":
        model.train()
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
        out = [None]

        def step():
            optimizer.zero_grad()
            out[0] = model(x).float().square().mean()
            out[0].backward()
            optimizer.step()

        step()
        return step, lambda: out[0]
    model.eval()
    with torch.no_grad():
        y = [model(x) for _ in range(3)][-1]
        torch.cuda.synchronize()
        if mode == "eager":
            out = [y]

            def run():
                with torch.no_grad():
                    out[0] = model(x)

            return run, lambda: out[0]
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = model(x)
        return graph.replay, lambda: y


run, result = prepare()
for _ in range(5):
    run()
torch.cuda.synchronize()
print("ready", file=sys.stderr, flush=True)
latencies, begin = [], time.monotonic()
following = begin
seen = {}


def once():
    global following
    start = time.monotonic()
    if rate:
        following += 1 / rate
        while time.monotonic() < following - 0.002:
            time.sleep(max(0, following - 0.002 - time.monotonic()))
        while time.monotonic() < following:
            pass
        start = following if time.monotonic() - following < 1e-3 else time.monotonic()
    run()
    torch.cuda.synchronize()
    latencies.append((time.monotonic() - start) * 1e3)


if count and os.environ.get("NET_PROFILE"):
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA, ProfilerActivity.CPU]) as found:
        for _ in range(count):
            once()
    for event in found.events():
        if event.name.startswith(("cudaLaunch", "cuLaunch", "cudaGraphLaunch")):
            seen[event.name] = seen.get(event.name, 0) + 1
elif count:
    # Submitted without waiting: the thread runs ahead of the device.
    for _ in range(count):
        run()
    torch.cuda.synchronize()
else:
    while time.monotonic() < begin + seconds:
        once()
took = time.monotonic() - begin
latencies.sort()
n = len(latencies) or count
line = {"net": name, "mode": mode, "rate": rate, "n": n, "per_s": round(n / took, 1), "digest": digest(result())}
if latencies:
    line |= {"p50": round(latencies[n // 2], 3), "p99": round(latencies[n * 99 // 100], 3), "max": round(latencies[-1], 3)}
if seen:
    line["seen"] = seen
print(json.dumps(line), flush=True)
