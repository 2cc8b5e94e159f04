"""An ordinary PyTorch program: an inference network that says what it computed and how long it took.

net.py NETWORK eager|graph|train RATE,... SECONDS [COUNT]: RATE 0 is a closed loop; with COUNT that many runs instead
of SECONDS, and with NET_PROFILE the number of launches that CUPTI saw in them. NET_SPANS=FILE: a line for each time
that was measured: name, rate, begin and end; a best-effort program's own runs per second in those times are printed.
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
name, mode, seconds = sys.argv[1], sys.argv[2], float(sys.argv[4])
rates = [float(rate) for rate in sys.argv[3].split(",")]
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
seen = {}


def once(latencies, rate, due):
    """One run, at the time when it is due, or at once."""
    start = time.monotonic()
    if rate:
        while time.monotonic() < due - 0.002:
            time.sleep(max(0, due - 0.002 - time.monotonic()))
        while time.monotonic() < due:
            pass
        start = due
    run()
    torch.cuda.synchronize()
    latencies.append((start, (time.monotonic() - start) * 1e3))


def report(rate, latencies, n, took):
    line = {"net": name, "mode": mode, "rate": rate, "n": n, "per_s": round(n / took, 1), "digest": digest(result())}
    times = sorted(time for _, time in latencies)
    if times:
        line |= {"p50": round(times[n // 2], 3), "p99": round(times[n * 99 // 100], 3), "max": round(times[-1], 3)}
    if seen:
        line["seen"] = seen
    print(json.dumps(line), flush=True)


def measure(rate):
    latencies, begin = [], time.monotonic()
    due = begin
    while time.monotonic() < begin + seconds:
        due = max(due + (1 / rate if rate else 0), time.monotonic() if not rate else 0)
        once(latencies, rate, due)
    report(rate, latencies, len(latencies), time.monotonic() - begin)
    return latencies, begin


begin = time.monotonic()
if count and os.environ.get("NET_PROFILE"):
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA, ProfilerActivity.CPU]) as found:
        for _ in range(count):
            run()
        torch.cuda.synchronize()
    for event in found.events():
        if event.name.startswith(("cudaLaunch", "cuLaunch", "cudaGraphLaunch")):
            seen[event.name] = seen.get(event.name, 0) + 1
    report(0, [], count, time.monotonic() - begin)
elif count:
    # Submitted without waiting: the thread runs ahead of the device.
    for _ in range(count):
        run()
    torch.cuda.synchronize()
    report(0, [], count, time.monotonic() - begin)
else:
    spans = os.environ.get("NET_SPANS")
    for rate in rates:
        latencies, begin = measure(rate)
        if spans and os.environ.get("NET_CLASS") == "rt":
            with open(spans, "a") as file:
                print(rate, begin, time.monotonic(), file=file)
        elif spans and os.path.exists(spans):
            with open(spans) as file:
                times = [("rate " + line.split()[0], *map(float, line.split()[1:])) for line in file]
            times.append(("alone", begin, begin + 2))
            for what, since, until in times:
                runs = sum(since <= start < until for start, _ in latencies)
                print(f"    {runs / (until - since):7.1f} runs/s next to it: {what}", flush=True)
