#!/usr/bin/env python3
"""The peer of `reef bench networks` on an NVIDIA GPU: PyTorch with cuDNN as its experts run it.

Each network is one CUDA graph, channels last, batch 1, with copies of input and output in the graph. Three builds:
`eager` (every layer a kernel of its own), `fused` (normalisation folded into convolutions; convolution, bias,
addition and ReLU one call of cuDNN; what is left of normalisation and ReLU one kernel), `compile` (torch.compile
with frozen weights; slow to build). Prints p50 and p99 in ms, and how far the logits are from those of `eager`."""

import argparse
import operator
import time

import torch
import torchvision
from torch import fx, nn
from torch.fx.experimental.optimization import fuse

NETWORKS = (
    "resnet18 resnet50 resnet152 densenet121 densenet201 inception_v3 vgg19 alexnet mobilenet_v3_large".split()
)
RELUS = {torch.relu, nn.functional.relu, torch.relu_}
ADDS = {operator.add, operator.iadd, torch.add}


def network(name):
    extra = {"init_weights": False} if name == "inception_v3" else {}
    model = getattr(torchvision.models, name)(weights=None, **extra).eval()
    for module in model.modules():  # as if it had been trained: folding has something to fold
        if isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.running_mean, -0.1, 0.1)
            nn.init.uniform_(module.running_var, 0.8, 1.2)
        # As made, each block of a ResNet triples the squares of what it is added to: too much for halves after 50.
        last = getattr(module, "bn3", getattr(module, "bn2", None))
        if last is not None:
            nn.init.constant_(last.weight, 0.2)
    return model


# --- Fused: patterns of the traced network, rewritten ------------------------------------------------------------


def convolution_relu(x, weight, bias, *shape):
    return torch.cudnn_convolution_relu(x, weight, bias, *shape)


def convolution_add_relu(x, other, weight, bias, *shape):
    return torch.cudnn_convolution_add_relu(x, weight, other, 1.0, bias, *shape)


@torch.compile(dynamic=True)
def scale_shift_relu(x, scale, shift):
    return torch.relu(x * scale + shift)


for leaf in (convolution_relu, convolution_add_relu, scale_shift_relu):
    fx.wrap(leaf.__name__)


class Fuser:
    """Rewrites one traced network in place."""

    def __init__(self, model):
        self.traced = fuse(model)
        self.modules = dict(self.traced.named_modules())

    def module(self, node, kind):
        is_module = isinstance(node, fx.Node) and node.op == "call_module"
        found = self.modules[node.target] if is_module else None
        return found if isinstance(found, kind) else None

    def is_relu(self, node):
        by_method = node.op == "call_method" and node.target in ("relu", "relu_")
        by_function = node.op == "call_function" and node.target in RELUS
        return by_method or by_function or self.module(node, nn.ReLU) is not None

    def replace(self, relu, function, arguments, gone):
        with self.traced.graph.inserting_before(relu):
            new = self.traced.graph.call_function(function, tuple(arguments))
        relu.replace_all_uses_with(new)
        for node in (relu, *gone):
            self.traced.graph.erase_node(node)

    def constant(self, name, value):
        self.traced.register_buffer(name, value)
        return self.traced.graph.get_attr(name)

    def convolution(self, node, relu):
        """The arguments of a call that does what this convolution does, if only one node sees its result."""
        layer = self.module(node, nn.Conv2d)
        if layer is None or len(node.users) != 1 or not isinstance(layer.padding, tuple):
            return None
        with self.traced.graph.inserting_before(relu):
            weight = self.traced.graph.get_attr(node.target + ".weight")
            bias = self.traced.graph.get_attr(node.target + ".bias")
        return weight, bias, layer.stride, layer.padding, layer.dilation, layer.groups

    def rewrite(self, relu):
        before = relu.args[0]
        if (call := self.convolution(before, relu)) is not None:
            return self.replace(relu, convolution_relu, (before.args[0], *call), [before])
        if before.op == "call_function" and before.target in ADDS and len(before.users) == 1:
            for one, other in (before.args[:2], before.args[1::-1]):
                if (call := self.convolution(one, relu)) is not None:
                    arguments = (one.args[0], other, *call)
                    return self.replace(relu, convolution_add_relu, arguments, [before, one])
        norm = self.module(before, nn.BatchNorm2d)
        if norm is not None and len(before.users) == 1:
            scale = norm.weight / torch.sqrt(norm.running_var + norm.eps)
            shift = norm.bias - norm.running_mean * scale
            name = before.target.replace(".", "_")
            with self.traced.graph.inserting_before(relu):
                pair = [
                    self.constant(f"{name}_{what}", value.detach().view(1, -1, 1, 1))
                    for what, value in (("scale", scale), ("shift", shift))
                ]
            self.replace(relu, scale_shift_relu, (before.args[0], *pair), [before])

    def run(self):
        for layer in self.modules.values():  # cuDNN's calls want a bias
            if isinstance(layer, nn.Conv2d) and layer.bias is None:
                layer.bias = nn.Parameter(torch.zeros(layer.out_channels))
        for node in list(self.traced.graph.nodes):
            if self.is_relu(node):
                self.rewrite(node)
        self.traced.graph.lint()
        self.traced.recompile()
        return self.traced


BUILDS = {
    "eager": lambda model: model,
    "fused": lambda model: Fuser(model).run(),
    "compile": lambda model: torch.compile(model),
}


# --- One CUDA graph, measured ------------------------------------------------------------------------------------


class Captured:
    def __init__(self, model, size, dtype):
        model = model.cuda().to(dtype=dtype, memory_format=torch.channels_last)
        generator = torch.Generator().manual_seed(1)
        picture = torch.randn(1, 3, size, size, generator=generator).to(dtype)
        # Channels last on the host as well: the copy moves bytes, and no kernel turns them round.
        self.input = picture.contiguous(memory_format=torch.channels_last).pin_memory()
        self.output = torch.empty(1, 1000, dtype=dtype).pin_memory()
        device = self.input.cuda().to(memory_format=torch.channels_last)
        with torch.no_grad():
            for _ in range(5):
                model(device)
            torch.cuda.synchronize()
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                device.copy_(self.input, non_blocking=True)
                self.output.copy_(model(device), non_blocking=True)

    def replay(self):
        self.graph.replay()
        torch.cuda.synchronize()

    def measure(self, seconds):
        for _ in range(50):
            self.replay()
        times, end = [], time.monotonic() + seconds
        while time.monotonic() < end:
            begin = time.perf_counter()
            self.replay()
            times.append((time.perf_counter() - begin) * 1e3)
        times.sort()
        return times[len(times) // 2], times[len(times) * 99 // 100], len(times)


def row(name, build, dtype, seconds, reference):
    size = 299 if name == "inception_v3" else 224
    torch.manual_seed(1)  # the same weights for each build
    captured = Captured(BUILDS[build](network(name)), size, dtype)
    p50, p99, count = captured.measure(seconds)
    logits = captured.output.float()
    reference = logits if reference is None else reference
    off = ((logits - reference).abs().max() / reference.abs().max()).item()
    return f"p50 {p50:.3f} p99 {p99:.3f} ms, {count} inferences, off by {off:.1e}", reference


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("seconds", type=float, nargs="?", default=2.0, help="for each row")
    args.add_argument("--networks", default=",".join(NETWORKS))
    args.add_argument("--builds", default="eager,fused", help="of " + ",".join(BUILDS))
    args = args.parse_args()
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = True
    torch.backends.cuda.matmul.allow_tf32 = True
    torch._inductor.config.freezing = True
    print(f"PyTorch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}, {torch.cuda.get_device_name()}")
    for precision, dtype in ("tf32", torch.float32), ("fp16", torch.float16):
        for name in args.networks.split(","):
            reference = None
            for build in args.builds.split(","):
                try:
                    text, reference = row(name, build, dtype, args.seconds, reference)
                except Exception as error:  # one build of one network: the others are still worth having
                    text = f"failed: {str(error).splitlines()[0][:160]}"
                print(f"{precision} {name:18} {build:8} {text}", flush=True)


if __name__ == "__main__":
    main()
