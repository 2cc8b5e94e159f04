#!/usr/bin/env python3
"""Times networks of tensors on a GPU next to PyTorch at its best, in turns, with the same weights and inputs.

    tools/tensor_networks_gpu.py REEF FOLDER [turns] [network...]     # REEF: the program; FOLDER: for the ONNX files
    tools/tensor_networks_gpu.py peer NETWORK PRECISION FOLDER        # one network, told by lines of its input

Ours are the built-in networks where there are such, with made-up weights, and ONNX files of torchvision's otherwise.
The peer is the better of torch.compile with frozen weights and CUDA graphs, and of the model as it is in a CUDA graph, both
with PyTorch's own attention, channels last for pictures; tf32 or fp16. Prints p50 in ms, copies of inputs and outputs
included on both sides. All peers compile at once, and then measure one by one.
"""

import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

import tensor_networks

NETWORKS = ["bert", "distilbert", "vit_b_16", "convnext_tiny", "efficientnet_b0", "mobilenet_v3_large"]
BUILT_IN = {"bert": ["--size", "128"], "distilbert": ["--size", "128"], "vit_b_16": [], "mobilenet_v3_large": []}
SECONDS = 0.7


def build(name):
    """The model with seeded weights, and its inputs."""
    import torch

    torch.manual_seed(17)
    if "bert" in name:
        import transformers

        kind = {"bert": "Bert", "distilbert": "DistilBert"}[name]
        config = getattr(transformers, f"{kind}Config")(attn_implementation="sdpa")
        model = getattr(transformers, f"{kind}ForSequenceClassification")(config)
        ids = torch.randint(0, config.vocab_size, (1, 128))
        return model.eval(), (ids, torch.ones_like(ids))
    import torchvision

    return torchvision.models.get_model(name, weights=None).eval(), (torch.rand(1, 3, 224, 224),)


class Captured:
    """The model as it is, in a CUDA graph."""

    def __init__(self, model, inputs):
        import torch

        self.inputs, self.graph = inputs, torch.cuda.CUDAGraph()
        stream = torch.cuda.Stream()
        with torch.no_grad(), torch.cuda.stream(stream):
            for _ in range(3):
                model(*inputs)
            with torch.cuda.graph(self.graph, stream=stream):
                self.output = model(*inputs)
        torch.cuda.synchronize()

    def __call__(self, *_):
        self.graph.replay()
        return self.output


def peer(name, precision, folder):
    import torch

    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    torch.backends.cudnn.benchmark = True
    torch._inductor.config.freezing = True
    model, given = build(name)
    model = model.cuda()
    layout = torch.contiguous_format if "bert" in name else torch.channels_last
    if precision == "fp16":
        model = model.half()
    model = model.to(memory_format=layout)
    kind = lambda t: t.half() if precision == "fp16" and t.is_floating_point() else t
    host = [kind(t).pin_memory() for t in given]
    on = [t.cuda().to(memory_format=layout) if t.dim() == 4 else t.cuda() for t in host]
    first = lambda out: out.logits if hasattr(out, "logits") else out
    runs = {"graph": Captured(model, on)}
    try:
        with torch.no_grad():
            compiled = torch.compile(model, mode="reduce-overhead")
            for _ in range(4):
                compiled(*on)
            torch.cuda.synchronize()
            runs["compile"] = compiled
    except Exception as error:  # whatever the compiler can't do is said, and the other one measured
        print(f"{name} {precision}: not compiled: {str(error).splitlines()[0]}", file=sys.stderr, flush=True)
    back = first(model(*on)).detach().cpu().pin_memory()

    def once(run):
        begin = time.perf_counter()
        for to, source in zip(on, host):
            to.copy_(source, non_blocking=True)
        back.copy_(first(run(*on)), non_blocking=True)
        torch.cuda.synchronize()
        return 1000 * (time.perf_counter() - begin)

    print("ready", flush=True)
    for _ in sys.stdin:
        best = {}
        with torch.no_grad():
            for way, run in runs.items():
                times, end = [], time.monotonic() + SECONDS
                for _ in range(10):
                    once(run)
                while time.monotonic() < end:
                    times.append(once(run))
                best[way] = statistics.median(times)
        print(json.dumps(best), flush=True)


def named(name, folder):
    """What `reef bench networks` calls the network; a file is made as tensor_networks.py makes it."""
    if name in BUILT_IN:
        return [name, *BUILT_IN[name]]
    path = folder / f"{name}.onnx"
    if not path.exists():
        import torch

        _, model, inputs, names = next(one for one in tensor_networks.pictures() if one[0] == name)
        torch.onnx.export(model.eval(), inputs, path, dynamo=False, opset_version=17, input_names=names)
    return [str(path)]


def ours(reef, network, precision):
    device = f"cuda:0?precision={precision}"
    command = [reef, "bench", "networks", *network, "--device", device, "--time", f"{SECONDS}s", "--json"]
    made = subprocess.run(command, capture_output=True, text=True)
    if made.returncode != 0:
        print(f"{network[0]} {precision}: {made.stderr.strip().splitlines()[-1:]}", flush=True)
        return float("nan"), 0
    row = json.loads(made.stdout)["rows"][0]
    return row["total_p50_ms"], row["launches"]


def compare(reef, folder, turns, names):
    folder.mkdir(parents=True, exist_ok=True)
    peers = {}
    for name in names:
        for precision in ("tf32", "fp16"):
            command = [sys.executable, __file__, "peer", name, precision, str(folder)]
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
            peers[name, precision] = subprocess.Popen(command, **pipes)
    ours_named = {name: named(name, folder) for name in names}
    for (name, precision), process in peers.items():
        while (line := process.stdout.readline()) and line.strip() != "ready":
            pass
        print(f"# {name} {precision} {'ready' if line else 'ended'} after {time.monotonic() - BEGAN:.0f} s", flush=True)
    print(f"{'network':20}{'precision':>10}{'launches':>10}{'reef':>9}{'graph':>9}{'compile':>9}{'ratio':>8}", flush=True)
    for (name, precision), process in peers.items():
        rows, theirs = [], []
        for _ in range(turns):
            rows.append(ours(reef, ours_named[name], precision))
            if process.poll() is None:
                process.stdin.write("go\n")
                process.stdin.flush()
                theirs.append(json.loads(process.stdout.readline() or "{}"))
        of = lambda way: statistics.median([one.get(way, float("nan")) for one in theirs] or [float("nan")])
        mine, graph, compiled = statistics.median(row[0] for row in rows), of("graph"), of("compile")
        best = min(value for value in (graph, compiled, float("inf")) if value == value)
        line = f"{name:20}{precision:>10}{rows[0][1]:10}{mine:9.3f}{graph:9.3f}{compiled:9.3f}{mine / best:8.2f}"
        print(line, flush=True)
        process.stdin.close()
        process.wait()


BEGAN = time.monotonic()
match sys.argv[1:]:
    case ["peer", name, precision, folder]:
        peer(name, precision, pathlib.Path(folder))
    case [reef, folder, *rest]:
        turns = int(rest[0]) if rest else 2
        compare(os.path.abspath(reef), pathlib.Path(folder), turns, rest[1:] or NETWORKS)
    case _:
        sys.exit(__doc__)
