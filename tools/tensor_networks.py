#!/usr/bin/env python3
"""Times networks on the CPU device next to ONNX Runtime, in turns, with the same files and threads.

    pip install torch torchvision transformers onnx onnxruntime numpy
    tools/tensor_networks.py make FOLDER             # the networks as ONNX files, weights from a seed
    tools/tensor_networks.py run FOLDER REEF [turns] # REEF: target/release/reef

Prints the median of the turns' medians, in ms, their ratio and that of each turn, and the machine's load behind each
network: with two threads on a machine that does nothing else it is about 2. Ours is the whole path: dispatcher, copies in
and out.
"""

import json
import os
import pathlib
import statistics
import subprocess
import sys
import time


def texts():
    import torch
    import transformers

    for name, kind in [("bert", "Bert"), ("distilbert", "DistilBert")]:
        config = getattr(transformers, f"{kind}Config")(attn_implementation="eager")
        model = getattr(transformers, f"{kind}ForSequenceClassification")(config)
        ids = torch.randint(0, config.vocab_size, (1, 128))
        yield name, model, (ids, torch.ones_like(ids)), ["input_ids", "attention_mask"]


def pictures():
    import torch
    import torchvision

    for name in ["resnet50", "vit_b_16", "convnext_tiny", "efficientnet_b0", "mobilenet_v3_large"]:
        model = torchvision.models.get_model(name, weights=None)
        yield name, model, (torch.rand(1, 3, 224, 224),), ["input"]


def make(folder):
    import torch

    torch.manual_seed(17)
    folder.mkdir(parents=True, exist_ok=True)
    for name, model, inputs, names in [*texts(), *pictures()]:
        torch.onnx.export(
            model.eval(), inputs, folder / f"{name}.onnx", dynamo=False, opset_version=17, input_names=names
        )
        print(name, flush=True)


def onnxruntime_ms(path, seconds):
    import numpy
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = os.cpu_count()
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    kinds = {"tensor(int64)": numpy.int64, "tensor(float)": numpy.float32}
    feeds = {port.name: numpy.ones(port.shape, kinds[port.type]) for port in session.get_inputs()}
    session.run(None, feeds)
    end, times = time.monotonic() + seconds, []
    while time.monotonic() < end:
        began = time.perf_counter()
        session.run(None, feeds)
        times.append(1000 * (time.perf_counter() - began))
    return times


def reef_ms(reef, path, seconds):
    command = [reef, "bench", "networks", str(path), "--device", "cpu", "--time", f"{seconds}s", "--json"]
    made = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return json.loads(made)["rows"][0]["total_p50_ms"]


def run(folder, reef, turns):
    import onnxruntime

    print(f"p50 of {turns} turns of 3 s each, ms; ONNX Runtime {onnxruntime.__version__}, {os.cpu_count()} threads")
    print(f"{'network':20}{'reef':>8}{'onnxruntime':>13}{'ratio':>8}{'load':>7}   turns")
    for path in sorted(folder.glob("*.onnx")):
        pairs = []
        for _ in range(turns):
            pairs.append((reef_ms(reef, path, 3), statistics.median(onnxruntime_ms(path, 3))))
        ours, theirs = (statistics.median(side) for side in zip(*pairs))
        each = " ".join(f"{a / b:.2f}" for a, b in pairs)
        print(f"{path.stem:20}{ours:8.1f}{theirs:13.1f}{ours / theirs:8.2f}{os.getloadavg()[0]:7.1f}   {each}", flush=True)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["make", folder]:
            make(pathlib.Path(folder))
        case ["run", folder, reef, *turns]:
            run(pathlib.Path(folder), reef, int(turns[0]) if turns else 3)
        case _:
            sys.exit(__doc__)
