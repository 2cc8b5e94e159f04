#!/usr/bin/env python3
"""The peers of study.cu: PyTorch with cuBLAS and cuDNN, each layer 64 times in a graph with other weights each time.

    peers.py        prints microseconds a launch: the product or convolution with bias (and ReLU), and fused GELU as well"""

import torch
from torch.nn import functional

LAYERS = (("qkv", 2304, 768), ("projection", 768, 768), ("first", 3072, 768), ("second", 768, 3072))
PRODUCTS = [(f"{network} {name}", rows, columns, terms, name == "first")
            for network, rows in (("vit", 197), ("bert", 128))
            for name, columns, terms in LAYERS]
PICTURES = [(64, 64, 224), (64, 128, 112), (128, 128, 112), (128, 256, 56), (256, 256, 56), (256, 512, 28),
            (512, 512, 28), (512, 512, 14)]
LINEAR = [(25088, 4096), (4096, 4096), (4096, 1000)]
CHAIN = 64


def micros(layer, weights):
    with torch.no_grad():
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for weight in weights[:2]:
                for _ in range(3):
                    layer(weight)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            for n in range(CHAIN):
                layer(weights[n % len(weights)])
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        times = []
        for _ in range(8):
            begin.record()
            graph.replay()
            end.record()
            torch.cuda.synchronize()
            times.append(begin.elapsed_time(end) * 1000 / CHAIN)
        return min(times[1:])


def sets(shape, kind, **more):
    size = torch.empty((), dtype=kind).element_size() * torch.Size(shape).numel()
    count = min(CHAIN, max(2, (160 << 20) // size + 1))
    made = [torch.randn(shape, device="cuda", dtype=kind) * 0.05 for _ in range(count)]
    return [weight.contiguous(**more) for weight in made]


def main():
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    torch.backends.cudnn.benchmark = True
    print(torch.cuda.get_device_name(), torch.__version__, torch.backends.cudnn.version())
    for kind, name in ((torch.float16, "fp16"), (torch.float32, "tf32")):
        for what, rows, columns, terms, gelu in PRODUCTS:
            x = torch.randn(rows, terms, device="cuda", dtype=kind)
            bias = torch.randn(columns, device="cuda", dtype=kind)
            weights = sets((columns, terms), kind)
            plain = {}
            for library in ("cublas", "cublaslt"):
                torch.backends.cuda.preferred_blas_library(library)
                plain[library] = micros(lambda weight: functional.linear(x, weight, bias), weights)
            line = f"{what:20} {name} " + " ".join(f"{key} {value:.2f}" for key, value in plain.items())
            if gelu:
                apart = micros(lambda weight: functional.gelu(functional.linear(x, weight, bias)), weights)
                fused = micros(lambda weight: torch._addmm_activation(bias, x, weight.t(), use_gelu=True), weights)
                line += f" gelu-apart {apart:.2f} gelu-fused {fused:.2f}"
            print(line, flush=True)
        for channels, outputs, side in PICTURES:
            x = torch.randn(1, channels, side, side, device="cuda", dtype=kind)
            x = x.contiguous(memory_format=torch.channels_last)
            bias = torch.randn(outputs, device="cuda", dtype=kind)
            weights = sets((outputs, channels, 3, 3), kind, memory_format=torch.channels_last)
            ones = (1, 1)
            took = micros(lambda weight: torch.cudnn_convolution_relu(x, weight, bias, ones, ones, ones, 1), weights)
            print(f"vgg19 {channels}-{outputs}@{side} {name} cudnn-fused {took:.2f}", flush=True)
        for terms, outputs in LINEAR:
            x = torch.randn(1, terms, device="cuda", dtype=kind)
            bias = torch.randn(outputs, device="cuda", dtype=kind)
            weights = sets((outputs, terms), kind)
            took = micros(lambda weight: functional.linear(x, weight, bias), weights)
            rate = weights[0].nbytes / took / 1e6
            print(f"vgg19 linear {terms}-{outputs} {name} cublas {took:.2f} ({rate:.2f} TB/s)", flush=True)


if __name__ == "__main__":
    main()
