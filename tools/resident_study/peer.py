#!/usr/bin/env python3
"""ResNet-50 (batch 1, 224 x 224, fp16) in PyTorch as the peer of study.cu: one CUDA graph, channels last, folded normalisation.

    tools/resident_study/peer.py eager|fused|compile

`fused`: convolution, bias, addition and ReLU are one call of cuDNN. Prints rows of study.cu's table: p50 and p99 of 500 requests in
µs, by events on the device and from host to host, without copies and with those of the image and the answer."""

import sys
import time

import torch
from torch import nn
from torch.nn import functional

REQUESTS, WARM_UP = 500, 50


class Conv(nn.Conv2d):
    def __init__(self, inputs, outputs, window, stride):
        super().__init__(inputs, outputs, window, stride, window // 2)

    def shape(self):
        return self.stride, self.padding, self.dilation, self.groups


class Block(nn.Module):
    def __init__(self, inputs, narrow, stride, fused):
        super().__init__()
        self.fused = fused
        self.first = Conv(inputs, narrow, 1, 1)
        self.second = Conv(narrow, narrow, 3, stride)
        self.third = Conv(narrow, 4 * narrow, 1, 1)
        self.down = Conv(inputs, 4 * narrow, 1, stride) if inputs != 4 * narrow else None

    def forward(self, x):
        added = x if self.down is None else self.down(x)
        y = conv_relu(self.second, conv_relu(self.first, x, self.fused), self.fused)
        last = self.third
        if self.fused:
            return torch.cudnn_convolution_add_relu(y, last.weight, added, 1.0, last.bias, *last.shape())
        return functional.relu(last(y) + added)


def conv_relu(layer, x, fused):
    if fused:
        return torch.cudnn_convolution_relu(x, layer.weight, layer.bias, *layer.shape())
    return functional.relu(layer(x))


class ResNet50(nn.Module):
    def __init__(self, fused):
        super().__init__()
        self.fused = fused
        self.stem = Conv(3, 64, 7, 2)
        blocks, inputs = [], 64
        for stage, count in enumerate((3, 4, 6, 3)):
            for n in range(count):
                blocks.append(Block(inputs, 64 << stage, 2 if n == 0 and stage > 0 else 1, fused))
                inputs = 4 * (64 << stage)
        self.blocks = nn.Sequential(*blocks)
        self.linear = nn.Linear(2048, 1000)

    def forward(self, x):
        x = functional.max_pool2d(conv_relu(self.stem, x, self.fused), 3, 2, 1)
        return self.linear(self.blocks(x).mean((2, 3)))


def captured(step):
    """A CUDA graph of a step that has run often enough for cuDNN and the compiler to have chosen."""
    for _ in range(5):
        step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph


def p50_p99(times):
    times = sorted(times[WARM_UP:])
    return f"{times[len(times) // 2]:.1f}\t{times[len(times) * 99 // 100]:.1f}"


def measure(graph):
    host, device = [], []
    for _ in range(WARM_UP + REQUESTS):
        begin = time.perf_counter()
        graph.replay()
        torch.cuda.synchronize()
        host.append((time.perf_counter() - begin) * 1e6)
    for _ in range(WARM_UP + REQUESTS):
        begun, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begun.record()
        graph.replay()
        ended.record()
        torch.cuda.synchronize()
        device.append(begun.elapsed_time(ended) * 1e3)
    return f"{p50_p99(device)}\t{p50_p99(host)}"


def main():
    build = sys.argv[1] if len(sys.argv) == 2 else ""
    if build not in ("eager", "fused", "compile"):
        sys.exit(__doc__)
    torch.manual_seed(50)
    torch.backends.cudnn.benchmark = True
    model = ResNet50(build == "fused").eval().cuda().half().to(memory_format=torch.channels_last)
    if build == "compile":
        from torch._inductor import config

        config.freezing = True
        model = torch.compile(model)
    image = torch.randn(1, 3, 224, 224).half().contiguous(memory_format=torch.channels_last).pin_memory()
    answer = torch.empty(1, 1000, dtype=torch.half).pin_memory()
    on_device = image.cuda().contiguous(memory_format=torch.channels_last)

    def copies():
        on_device.copy_(image, non_blocking=True)
        answer.copy_(model(on_device), non_blocking=True)

    with torch.no_grad():
        for buffers, step in ("device", lambda: model(on_device)), ("host", copies):
            graph = captured(step)
            print(f"-\t-\t{buffers}\tPyTorch {torch.__version__} {build}\t{measure(graph)}", flush=True)


if __name__ == "__main__":
    main()
