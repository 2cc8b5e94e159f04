#!/usr/bin/env python3
"""Times single operators of ONNX on a device, next to ONNX Runtime, in turns, and prints a table in Markdown:

    pip install onnx onnxruntime numpy          # onnxruntime-gpu for a GPU
    tools/operators.py REEF FOLDER [--device cuda:0?precision=fp32] [--threads 1] [--turns 3] [--time 0.1] [OPERATOR...]

Makes a file of one node for each in FOLDER. REEF is the program: `reef bench networks`. ONNX Runtime runs on the CPU with
as many threads as a CPU device has units here (`--threads`), and on the GPU as well if `--device` is one and it has
CUDA's provider with all kernels of a node. Without ONNX Runtime there are REEF's times alone. Inputs are made up on both
sides: noise, and 0 or 1 for integers. Times are the medians of all turns' p50 of one request in µs, copies of inputs and
outputs included on both sides. `launches` are REEF's for the node. Lines of progress begin with `#`; the rest is for
docs/reference/operators.md. A GPU takes about two minutes.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

try:
    import onnxruntime
except ImportError:  # REEF alone
    onnxruntime = None

MS, ML = "com.microsoft", "ai.onnx.ml"
LONGEST = 60  # seconds for a call of REEF, besides the times that it measures for
F32, I64, U8, I8, I32, BOOL = (np.dtype(name) for name in ("float32", "int64", "uint8", "int8", "int32", "bool"))
draw = np.random.default_rng(17)


def noise(*shape):
    return draw.normal(size=shape).astype(F32)


def bytes_of(kind, *shape):
    limits = np.iinfo(kind)
    return draw.integers(limits.min, limits.max + 1, size=shape, dtype=kind)


def whole(*numbers):
    return np.array(numbers, I64)


def one(number, kind=F32):
    return np.array(number, kind)


class Given:
    """An input of each request: its type and shape."""

    def __init__(self, *shape, kind=F32):
        self.shape, self.kind = shape, kind

    def __str__(self):
        return f"{self.kind}[{', '.join(map(str, self.shape))}]"

    def values(self):
        if self.kind == F32:
            return noise(*self.shape)
        if self.kind in (U8, I8):
            return bytes_of(self.kind, *self.shape)
        return draw.integers(0, 2, size=self.shape).astype(self.kind)


def forest(trees=100, depth=6, features=32):
    """Attributes of trees that are all as deep, which compare made-up features with made-up numbers."""
    lists = {name: [] for name in ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids")}
    targets = {name: [] for name in ("treeids", "nodeids", "ids", "weights")}
    inner = 2**depth - 1
    for tree in range(trees):
        for at in range(2 * inner + 1):
            is_leaf = at >= inner
            row = (tree, at, int(draw.integers(features)), float(draw.normal()))
            row += ("LEAF", 0, 0) if is_leaf else ("BRANCH_LEQ", 2 * at + 1, 2 * at + 2)
            for column, value in zip(lists.values(), row):
                column.append(value)
            if is_leaf:
                for column, value in zip(targets.values(), (tree, at, 0, float(draw.normal()))):
                    column.append(value)
    made = {f"nodes_{name}": column for name, column in lists.items()}
    return {**made, **{f"target_{name}": column for name, column in targets.items()}, "n_targets": 1}


def gates(count, hidden=256, given=256):
    return [noise(1, count * hidden, given) / 16, noise(1, count * hidden, hidden) / 16, noise(1, 2 * count * hidden)]


# Name of a row, operator with its domain, operands (inputs of each request, and constants), attributes, results.
image, text, heads = Given(1, 64, 56, 56), Given(1, 128, 768), Given(1, 12, 128, 64)
scale, zero = one(0.05), one(128, U8)
CASES = [
    ("Conv 3×3", "Conv", [image, noise(64, 64, 3, 3)], {"pads": [1] * 4}, 1),
    ("Conv 1×1", "Conv", [image, noise(256, 64, 1, 1)], {}, 1),
    ("Conv, depthwise", "Conv", [image, noise(64, 1, 3, 3)], {"pads": [1] * 4, "group": 64}, 1),
    ("ConvTranspose", "ConvTranspose", [Given(1, 64, 28, 28), noise(64, 32, 4, 4)], {"strides": [2, 2], "pads": [1] * 4}, 1),
    ("MatMul", "MatMul", [text, noise(768, 768)], {}, 1),
    ("Gemm", "Gemm", [Given(64, 1024), noise(1024, 1024), noise(1024)], {}, 1),
    ("MatMulNBits", (MS, "MatMulNBits"), [Given(1, 2048), bytes_of(U8, 2048, 64, 16), np.abs(noise(2048 * 64)) / 16],
     {"K": 2048, "N": 2048, "bits": 4, "block_size": 32}, 1),
    ("QLinearConv", "QLinearConv", [Given(1, 64, 56, 56, kind=U8), scale, zero, bytes_of(U8, 64, 64, 3, 3), scale, zero, one(9.0), zero],
     {"pads": [1] * 4}, 1),
    ("QLinearMatMul", "QLinearMatMul", [Given(128, 768, kind=U8), scale, zero, bytes_of(U8, 768, 768), scale, zero, one(9.0), zero], {}, 1),
    ("DynamicQuantizeLinear", "DynamicQuantizeLinear", [text], {}, 3),
    ("QuantizeLinear", "QuantizeLinear", [text, scale, zero], {}, 1),
    ("DequantizeLinear", "DequantizeLinear", [Given(1, 128, 768, kind=U8), scale, zero], {}, 1),
    ("BatchNormalization", "BatchNormalization", [image, noise(64), noise(64), noise(64), np.abs(noise(64)) + 1], {}, 1),
    ("LayerNormalization", "LayerNormalization", [text, noise(768), noise(768)], {}, 1),
    ("InstanceNormalization", "InstanceNormalization", [image, noise(64), noise(64)], {}, 1),
    ("Softmax", "Softmax", [Given(1, 12, 128, 128)], {}, 1),
    ("Attention", "Attention", [heads] * 3, {}, 1),
    ("MultiHeadAttention", (MS, "MultiHeadAttention"), [text] * 3, {"num_heads": 12}, 1),
    ("Gelu", "Gelu", [text], {}, 1),
    ("Erf", "Erf", [text], {}, 1),
    ("Add", "Add", [text, text], {}, 1),
    ("Where", "Where", [Given(1, 128, 768, kind=BOOL), text, text], {}, 1),
    ("MaxPool 3×3", "MaxPool", [image], {"kernel_shape": [3, 3], "strides": [2, 2]}, 1),
    ("GlobalAveragePool", "GlobalAveragePool", [image], {}, 1),
    ("Resize, linear", "Resize", [Given(1, 32, 64, 64), np.array([], F32), np.array([1, 1, 2, 2], F32)], {"mode": "linear"}, 1),
    ("GridSample", "GridSample", [Given(1, 32, 64, 64), Given(1, 64, 64, 2)], {"mode": "linear"}, 1),
    ("RoiAlign", "RoiAlign", [Given(1, 64, 50, 50), np.abs(noise(100, 4)).cumsum(1) * 8, np.zeros(100, I64)],
     {"output_height": 7, "output_width": 7, "sampling_ratio": 2}, 1),
    ("TopK", "TopK", [Given(1, 10_000), whole(100)], {}, 2),
    ("ArgMax", "ArgMax", [Given(8, 32_000)], {"axis": -1}, 1),
    ("NonZero", "NonZero", [Given(64, 256, kind=BOOL)], {}, 1),
    ("NonMaxSuppression", "NonMaxSuppression", [np.abs(noise(1, 1000, 4)).cumsum(2), Given(1, 4, 1000), whole(50), one(0.5), one(0.2)], {}, 1),
    ("Gather", "Gather", [noise(10_000, 256), Given(128, kind=I64)], {}, 1),
    ("ScatterElements", "ScatterElements", [text, np.zeros((1, 16, 768), I64), Given(1, 16, 768)], {"axis": 1}, 1),
    ("ScatterND", "ScatterND", [Given(1024, 256), np.arange(0, 1024, 8, dtype=I64).reshape(-1, 1), Given(128, 256)], {}, 1),
    ("Transpose", "Transpose", [Given(1, 128, 12, 64)], {"perm": [0, 2, 1, 3]}, 1),
    ("Concat", "Concat", [image, image], {"axis": 1}, 1),
    ("ReduceMean", "ReduceMean", [image, whole(2, 3)], {}, 1),
    ("CumSum", "CumSum", [Given(64, 1024), one(1, I64)], {}, 1),
    ("Einsum", "Einsum", [heads, heads], {"equation": "bhid,bhjd->bhij"}, 1),
    ("LSTM", "LSTM", [Given(32, 1, 256), *gates(4)], {"hidden_size": 256}, 1),
    ("GRU", "GRU", [Given(32, 1, 256), *gates(3)], {"hidden_size": 256}, 1),
    ("TreeEnsembleRegressor", (ML, "TreeEnsembleRegressor"), [Given(64, 32)], forest(), 1),
]


def save(folder, case):
    """Writes the file of a case. Returns it with the inputs of a request."""
    name, op, operands, attributes, results = case
    domain, op = op if isinstance(op, tuple) else ("", op)
    names, inputs, stored, given = [], [], [], {}
    for k, operand in enumerate(operands):
        port = f"x{k}"
        names.append(port)
        if isinstance(operand, Given):
            kind = helper.np_dtype_to_tensor_dtype(operand.kind)
            inputs.append(helper.make_tensor_value_info(port, kind, operand.shape))
            given[port] = operand.values()
        elif operand.size == 0:
            names[-1] = ""
        else:
            stored.append(numpy_helper.from_array(operand, port))
    outputs = [f"y{k}" for k in range(results)]
    node = helper.make_node(op, names, outputs, name=op, domain=domain, **attributes)
    empty = [onnx.ValueInfoProto(name=output) for output in outputs]
    graph = helper.make_graph([node], op, inputs, empty, stored)
    sets = [("", 23 if op == "Attention" else 21), (MS, 1), (ML, 3)]
    opsets = [helper.make_opsetid(*each) for each in sets if each[0] in ("", domain)]
    model = onnx.shape_inference.infer_shapes(helper.make_model(graph, opset_imports=opsets, ir_version=10))
    for output in model.graph.output:  # where nothing is inferred the type is enough
        if not output.type.WhichOneof("value"):
            output.type.tensor_type.elem_type = TensorProto.FLOAT
    path = folder / f"{name.replace('×', 'x').replace(', ', '-').replace(' ', '-')}.onnx"
    path.write_bytes(model.SerializeToString())
    return path, given


def is_read(reef, path):
    """Whether REEF reads the file; says what it refuses."""
    shown = subprocess.run([reef, "model", "show", path], capture_output=True, text=True)
    if shown.returncode != 0:
        print(f"# {path.stem}: {shown.stderr.strip().splitlines()[-1:]}", flush=True)
    return shown.returncode == 0


def of_reef(reef, device, seconds, paths):
    """Microseconds and launches of each, by its path. If one of several fails or is slow, each is run alone."""
    command = [reef, "bench", "networks", *map(str, paths), "--device", device, "--time", f"{seconds}s", "--json"]
    try:
        made = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST + 4 * seconds * len(paths))
        why = made.stderr.strip().splitlines()[-1:]
        if made.returncode == 0:
            rows = json.loads(made.stdout)["rows"]
            return {path: (1000 * row["total_p50_ms"], row["launches"]) for path, row in zip(paths, rows)}
    except subprocess.TimeoutExpired as error:
        why = error
    if len(paths) == 1:
        print(f"# {paths[0].stem}: {why}", flush=True)
        return {}
    return {path: row for path in paths for row in of_reef(reef, device, seconds, [path]).values()}


def session_of(path, provider, threads):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 4
    if provider != "CPUExecutionProvider":
        options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    try:
        session = onnxruntime.InferenceSession(str(path), options, providers=[provider])
        if provider not in session.get_providers():  # it falls back to the CPU silently
            raise RuntimeError("the provider was not loaded")
        return session
    except Exception as error:  # an operator or a type that this provider has not
        print(f"# {path.stem}, {provider}: {str(error).splitlines()[:1]}", flush=True)
        return None


def providers_of(is_gpu):
    if onnxruntime is None:
        return []
    if not is_gpu or "CUDAExecutionProvider" not in onnxruntime.get_available_providers():
        return ["CPUExecutionProvider"]
    if hasattr(onnxruntime, "preload_dlls"):
        onnxruntime.preload_dlls()  # those that PyTorch brings
    return ["CPUExecutionProvider", "CUDAExecutionProvider"]


def of_session(session, given, seconds):
    times, begun = [], time.perf_counter()
    end = begun + seconds
    while (now := time.perf_counter()) < end or len(times) < 10:
        session.run(None, given)
        times.append(1e6 * (time.perf_counter() - now))
    return statistics.median(times[len(times) // 5 :])


def main(args):
    args.folder.mkdir(parents=True, exist_ok=True)
    is_gpu = not args.device.startswith("cpu")
    wanted = [case for case in CASES if not args.operators or any(name in case[0] for name in args.operators)]
    saved = {case[0]: save(args.folder, case) for case in wanted}
    read = [path for path, _ in saved.values() if is_read(args.reef, path)]
    providers = providers_of(is_gpu)
    sessions = {(name, each): session_of(path, each, args.threads) for name, (path, _) in saved.items() for each in providers}
    ours, theirs, launches = {}, {}, {}
    for turn in range(args.turns):
        made = of_reef(args.reef, args.device, args.time, read) if is_gpu else {}
        for path in read if not is_gpu else ():  # a CPU device is there at once
            made |= of_reef(args.reef, args.device, args.time, [path])
        for path, (micros, count) in made.items():
            ours.setdefault(path, []).append(micros)
            launches[path] = count
        read = list(made)  # what failed once is not tried again
        for (name, provider), session in sessions.items():
            if session:
                micros = of_session(session, saved[name][1], args.time)
                theirs.setdefault((name, provider), []).append(micros)
        print(f"# turn {turn + 1} of {args.turns}", flush=True)
    short = [f"ONNX Runtime, {provider.removesuffix('ExecutionProvider')}" for provider in providers]
    peer = f"ONNX Runtime {onnxruntime.__version__}, {args.threads} threads; " if onnxruntime else ""
    print(f"\n{peer}REEF on {args.device}; µs, p50, {args.turns} turns\n")
    print(f"| {' | '.join(['operator', 'inputs', 'launches', 'REEF', *short])} |\n|---|---|{'--:|' * (2 + len(short))}")
    for name, _, operands, *_ in wanted:
        path = saved[name][0]
        shapes = ", ".join(dict.fromkeys(str(each) for each in operands if isinstance(each, Given)))
        cell = lambda times: f"{statistics.median(times):.1f}" if times else "–"
        cells = [cell(ours.get(path)), *(cell(theirs.get((name, provider))) for provider in providers)]
        print(f"| {name} | {shapes} | {launches.get(path, '–')} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reef")
    parser.add_argument("folder", type=Path)
    parser.add_argument("operators", nargs="*", help="parts of names of rows; without one, all")
    parser.add_argument("--device", default="cpu:0?units=1")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--time", type=float, default=0.1)
    sys.exit(main(parser.parse_intermixed_args()))
