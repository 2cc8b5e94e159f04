#!/usr/bin/env python3
"""Times ResNet-50 that quantize_static wrote on a GPU, next to its floats, ONNX Runtime and PyTorch, and prints tables.

    pip install torch torchvision onnx onnxruntime numpy        # onnxruntime-gpu for its figures on the GPU
    tools/quantized_resnet50.py REEF FOLDER [--device cuda:0] [--turns 3] [--time 0.4]

Makes resnet50.onnx and resnet50-qdq.onnx in FOLDER: torchvision's network with made-up weights, whose norms have the
statistics of 16 made-up images and whose classes differ from image to image, and what ONNX Runtime makes of it with those
images (QDQ, int8, weights by channel). REEF is the program. It runs both files with `precision=fp16`, where convolutions
of the second one are on the kernels of 8 bits, and the second one by its meaning with `precision=tf32`.

- p50 of one image, copies of input and output included: medians of turns, in which all take part. ONNX Runtime runs the
  floats, halves and QDQ by CUDA's provider if it has that one, the better of a plain call and of a CUDA graph. PyTorch
  runs halves in a CUDA graph, channels last. Without a GPU there are REEF's times alone.
- Errors of 64 other images: parts of the largest output that ONNX Runtime gives of the floats on the CPU.
"""

import argparse
import json
import logging
import os
import statistics
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import torch
import torchvision
from onnx import TensorProto, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

SAMPLES, CHECKS, CLASSES = 16, 64, 1000
REEF_LIMIT = 120  # seconds for one call of REEF
BEGUN = time.perf_counter()


def say(text):
    print(f"# {time.perf_counter() - BEGUN:5.1f} s: {text}", flush=True)


def images(count, seed):
    """Squares of made-up colours with noise, so that images differ as a whole."""
    draw = np.random.default_rng(seed)
    coarse = draw.normal(size=(count, 3, 7, 7)).repeat(32, axis=2).repeat(32, axis=3)
    return (coarse + draw.normal(size=(count, 3, 224, 224)) / 2).astype(np.float32)


def network(samples):
    """ResNet-50 whose norms are of the samples. Of them the mean of each output is 0, so that no class is always the top."""
    torch.manual_seed(50)
    model = torchvision.models.resnet50(weights=None)
    for norm in model.modules():
        if isinstance(norm, torch.nn.BatchNorm2d):
            norm.momentum = None  # the mean of all batches, of which there is one
    with torch.no_grad():
        model.train()(samples)
        layer, model.fc = model.fc, torch.nn.Identity()
        features = model.eval()(samples)
        model.fc = layer
        layer.bias.copy_(-(layer.weight @ features.mean(0)))
    return model.eval()


class Reader(CalibrationDataReader):
    def __init__(self, samples):
        self.each = iter([{"x": samples[at : at + 4]} for at in range(0, len(samples), 4)])

    def get_next(self):
        return next(self.each, None)


def halves(path, to):
    """A copy whose weights, input and output are halves: no operator of the network has a type of its own."""
    model = onnx.load(path)
    for tensor in model.graph.initializer:
        if tensor.data_type == TensorProto.FLOAT:
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float16), tensor.name))
    for port in [*model.graph.input, *model.graph.output]:
        port.type.tensor_type.elem_type = TensorProto.FLOAT16
    del model.graph.value_info[:]
    onnx.save(model, to)


def make(folder):
    """Writes the files. Returns the model, and the files of floats, halves and QDQ."""
    floats, half, qdq = (folder / f"resnet50{end}.onnx" for end in ("", "-fp16", "-qdq"))
    samples = images(SAMPLES, 1)
    model = network(torch.from_numpy(samples))
    say("ResNet-50 is made")
    names = {"input_names": ["x"], "output_names": ["logits"], "dynamic_axes": {"x": {0: "n"}, "logits": {0: "n"}}}
    torch.onnx.export(model, torch.from_numpy(samples[:1]), str(floats), opset_version=17, dynamo=False, **names)
    halves(floats, half)
    kinds = {"activation_type": QuantType.QInt8, "weight_type": QuantType.QInt8, "per_channel": True}
    quantize_static(str(floats), str(qdq), Reader(samples), quant_format=QuantFormat.QDQ, **kinds)
    say("files are written and quantized")
    return model, floats, half, qdq


def options():
    made = onnxruntime.SessionOptions()
    made.log_severity_level = 4
    return made


def on_cpu(path, x):
    session = onnxruntime.InferenceSession(str(path), options(), providers=["CPUExecutionProvider"])
    parts = [session.run(None, {"x": x[at : at + 16]})[0] for at in range(0, len(x), 16)]
    return np.concatenate(parts)


def called(command):
    """What a call of REEF writes; `None`, and why, if it fails."""
    try:
        made = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=REEF_LIMIT)
    except subprocess.TimeoutExpired as late:
        print(f"# {late}", flush=True)
        return None
    if made.returncode != 0:
        print(f"# {' '.join(map(str, command[:4]))}: {made.stderr.strip().splitlines()[-1:]}", flush=True)
        return None
    return made.stdout


def by_reef(reef, path, device, folder):
    """Outputs of all checks in one batch."""
    out = folder / "answers"
    (out / "logits.npy").unlink(missing_ok=True)
    command = [reef, "run", path, f"x={folder / 'x.npy'}", "--device", device, "--out", out, "--memory", "0"]
    return np.load(out / "logits.npy") if called(command) is not None else None


class OfReef:
    """Both files in one process, on the kernels that `reef bench networks` takes."""

    def __init__(self, reef, paths, device, seconds):
        self.command = [reef, "bench", "networks", *paths, "--device", device, "--time", f"{seconds}s", "--json"]

    def turn(self):
        made = called(self.command)
        return [] if made is None else [(row["total_p50_ms"], row["launches"]) for row in json.loads(made)["rows"]]


def p50(step, seconds):
    """Median of the milliseconds of a call."""
    for _ in range(10):
        step()
    times, end = [], time.perf_counter() + seconds
    while (now := time.perf_counter()) < end or len(times) < 20:
        step()
        times.append(1e3 * (time.perf_counter() - now))
    return statistics.median(times)


def step_of_session(path, x, is_graph):
    """A call of ONNX Runtime on the GPU, all of whose nodes are there. The session falls back to the CPU silently."""
    settings = options()
    settings.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    provider = ("CUDAExecutionProvider", {"enable_cuda_graph": "1" if is_graph else "0"})
    session = onnxruntime.InferenceSession(str(path), settings, providers=[provider])
    if "CUDAExecutionProvider" not in session.get_providers():
        raise RuntimeError("CUDA's provider was not loaded")
    if not is_graph:
        return lambda: session.run(None, {"x": x})
    given = onnxruntime.OrtValue.ortvalue_from_numpy(x, "cuda", 0)
    made = onnxruntime.OrtValue.ortvalue_from_numpy(np.zeros((1, CLASSES), x.dtype), "cuda", 0)
    binding = session.io_binding()
    binding.bind_ortvalue_input("x", given)
    binding.bind_ortvalue_output("logits", made)

    def step():
        given.update_inplace(x)
        session.run_with_iobinding(binding)
        made.numpy()

    return step


def steps_of_onnxruntime(files):
    """Calls by the names of their rows."""
    if "CUDAExecutionProvider" not in onnxruntime.get_available_providers():
        say("this ONNX Runtime has no CUDA provider")
        return {}
    if hasattr(onnxruntime, "preload_dlls"):
        onnxruntime.preload_dlls()  # those that PyTorch brings
    steps = {}
    for name, (path, kind) in files.items():
        for is_graph in (False, True):
            try:
                step = step_of_session(path, images(1, 3).astype(kind), is_graph)
                step()
                steps.setdefault(f"ONNX Runtime, CUDA, {name}", []).append(step)
            except Exception as error:  # an operator that the provider has not, or no graph of it
                print(f"# ONNX Runtime, {name}, graph {is_graph}: {str(error).splitlines()[:1]}", flush=True)
    return steps


def step_of_torch(model):
    model = model.half().cuda().to(memory_format=torch.channels_last)
    x = torch.from_numpy(images(1, 3)).half().pin_memory()
    given = x.cuda().contiguous(memory_format=torch.channels_last)
    stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    torch.backends.cudnn.benchmark = True
    with torch.no_grad(), torch.cuda.stream(stream):
        for _ in range(3):
            model(given)
        with torch.cuda.graph(graph, stream=stream):
            made = model(given)
    torch.cuda.synchronize()

    def step():
        given.copy_(x, non_blocking=True)
        graph.replay()
        made.cpu()

    return step


def error_row(name, have, want):
    """A row of the table of errors."""
    if have is None:
        return f"| {name} | – | – | – | – |"
    have, want = have.astype(np.float64), want.astype(np.float64)
    off = np.abs(have - want) / np.abs(want).max(axis=1, keepdims=True)
    cosine = (have * want).sum(1) / np.linalg.norm(have, axis=1) / np.linalg.norm(want, axis=1)
    same = int((have.argmax(1) == want.argmax(1)).sum())
    return f"| {name} | {off.max():.4f} | {off.mean():.5f} | {cosine.min():.5f} | {same} of {len(want)} |"


def main(args):
    logging.disable(logging.WARNING)  # the quantizer's advice
    warnings.simplefilter("ignore")  # the exporter's
    args.folder.mkdir(parents=True, exist_ok=True)
    model, floats, half, qdq = make(args.folder)
    x = images(CHECKS, 2)
    np.save(args.folder / "x.npy", x)
    want, theirs = on_cpu(floats, x), on_cpu(qdq, x)
    say(f"ONNX Runtime has run both on the CPU: {len(set(want.argmax(1)))} classes are a top one")
    has_gpu = args.device.startswith("cuda")
    fp16, tf32 = ([f"{args.device}?precision={name}" if has_gpu else args.device for name in ("fp16", "tf32")])
    rows = [error_row("ONNX Runtime, CPU, QDQ", theirs, want)]
    cases = [("REEF, QDQ, fp16", qdq, fp16), ("REEF, floats, fp16", floats, fp16), ("REEF, QDQ, tf32", qdq, tf32)]
    answers = {}
    for name, path, device in cases if has_gpu else [("REEF, QDQ", qdq, fp16), ("REEF, floats", floats, fp16)]:
        answers[name] = by_reef(args.reef, path, device, args.folder)
        rows.append(error_row(name, answers[name], want))
    say("REEF has run the checks")

    steps = {}
    if has_gpu and torch.cuda.is_available():
        files = {"floats": (floats, np.float32), "fp16": (half, np.float16), "QDQ": (qdq, np.float32)}
        steps = steps_of_onnxruntime(files)
        try:
            steps["PyTorch, fp16, CUDA graph"] = [step_of_torch(model)]
        except RuntimeError as error:  # REEF's figures stay
            print(f"# PyTorch: {str(error).splitlines()[:1]}", flush=True)
        say("peers are ready")
    ours, times = OfReef(args.reef, [qdq, floats], fp16, args.time), {}
    launches = {}
    for turn in range(args.turns):
        for name, (millis, count) in zip(["REEF, QDQ", "REEF, floats"], ours.turn()):
            times.setdefault(name, []).append(millis)
            launches[name] = count
        for name, ways in steps.items():
            times.setdefault(name, []).append(min(p50(step, args.time) for step in ways))
        say(f"turn {turn + 1} of {args.turns}")

    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else f"{os.cpu_count()} processors"
    versions = f"ONNX Runtime {onnxruntime.__version__}, PyTorch {torch.__version__}"
    print(f"\nResNet-50, one image, p50 of {args.turns} turns, copies included; {gpu}, REEF on {fp16}, {versions}\n")
    print("| network | p50 ms | launches |\n|---|--:|--:|")
    for name, each in times.items():
        print(f"| {name} | {statistics.median(each):.3f} | {launches.get(name, '–')} |")
    print(f"\nParts of the largest output that floats give; {CHECKS} images\n")
    print("| network | difference at most | in the mean | cosine at least | equal top class |\n|---|--:|--:|--:|--:|")
    print("\n".join(rows))
    say("done")
    return 0 if len(times) >= 2 and all(answer is not None for answer in answers.values()) else 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reef")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--time", type=float, default=0.4)
    sys.exit(main(parser.parse_args()))
