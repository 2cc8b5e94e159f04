#!/usr/bin/env python3
"""The peer of `reef bench networks` on an NVIDIA GPU: PyTorch with cuDNN, each network as one CUDA graph,
channels last, batch 1, with copies of input and output in the graph. Prints p50 and p99 in ms."""

import sys
import time

import torch
import torchvision

NETWORKS = "resnet18 resnet50 resnet152 densenet121 densenet201 inception_v3".split()
SECONDS = float(sys.argv[1]) if len(sys.argv) > 1 else 2.0


def graph(name, dtype):
    size = 299 if name == "inception_v3" else 224
    extra = {"init_weights": False} if name == "inception_v3" else {}
    model = getattr(torchvision.models, name)(weights=None, **extra).cuda().eval()
    model = model.to(dtype=dtype, memory_format=torch.channels_last)
    host_in = torch.randn(1, 3, size, size, dtype=dtype).pin_memory()
    host_out = torch.empty(1, 1000, dtype=dtype).pin_memory()
    device_in = host_in.cuda().to(memory_format=torch.channels_last)
    with torch.no_grad():
        for _ in range(5):
            model(device_in)
        torch.cuda.synchronize()
        captured = torch.cuda.CUDAGraph()
        with torch.cuda.graph(captured):
            device_in.copy_(host_in, non_blocking=True)
            host_out.copy_(model(device_in), non_blocking=True)
    return captured


def measure(captured):
    for _ in range(20):
        captured.replay()
    torch.cuda.synchronize()
    times, end = [], time.monotonic() + SECONDS
    while time.monotonic() < end:
        begin = time.perf_counter()
        captured.replay()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - begin) * 1e3)
    times.sort()
    return times[len(times) // 2], times[len(times) * 99 // 100], len(times)


torch.backends.cudnn.benchmark = True
torch.backends.cudnn.allow_tf32 = True
torch.backends.cuda.matmul.allow_tf32 = True
print(f"PyTorch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}, {torch.cuda.get_device_name()}")
for precision, dtype in ("tf32", torch.float32), ("fp16", torch.float16):
    for name in NETWORKS:
        p50, p99, count = measure(graph(name, dtype))
        print(f"{precision} {name:13} p50 {p50:.3f} p99 {p99:.3f} ms, {count} inferences", flush=True)
