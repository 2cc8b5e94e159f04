#!/usr/bin/env python3
"""Times how long networks of 100,000 nodes take to be read, next to ONNX Runtime, in turns:

    pip install onnx onnxruntime numpy
    tools/many_nodes.py FOLDER REEF [REEF_BEFORE] [--turns 7]

Makes the files in FOLDER. REEF is target/release/reef: `reef model show FILE`, the whole process with what it prints. ONNX
Runtime makes a session of the same file once, its graph optimisations off; Python's start is not counted, and what takes
more than a minute is abandoned. Prints medians in seconds: of the time by the clock, and of the processor's, which is the same
on an idle machine. Exits with 1 if two versions of REEF print different things.
"""

import argparse
import pathlib
import resource
import statistics
import subprocess
import sys
import time

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

NODES = 100_000


def save(path, nodes, weights, given, made):
    port = lambda name, dims: helper.make_tensor_value_info(name, TensorProto.FLOAT, dims)
    graph = helper.make_graph(nodes, path.stem, [port(*given)], [port(*made)], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path.write_bytes(model.SerializeToString())


def chain(ops, dims, *operands):
    """Nodes one after the other; `ops` take turns."""
    node = lambda k, op: helper.make_node(op, [f"t{k}", *operands[: op == "Conv"]], [f"t{k + 1}"], name=f"n{k}")
    return [node(k, ops[k % len(ops)]) for k in range(NODES)], ("t0", dims), (f"t{NODES}", dims)


def layers():
    """A layer of ten operators, 10,000 times."""
    nodes, x = [], "x"
    for k in range(NODES // 10):
        t = [x, *(f"l{k}_{j}" for j in range(10))]
        shape = numpy_helper.from_array(np.array([8, 16]))
        for op, reads, writes, more in [
            ("MatMul", [t[0], f"w{k % 4}"], t[1], {}),
            ("Add", [t[1], f"b{k % 4}"], t[2], {}),
            ("Relu", [t[2]], t[3], {}),
            ("Transpose", [t[3]], t[4], {"perm": [1, 0]}),
            ("Constant", [], t[5], {"value": shape}),
            ("Reshape", [t[4], t[5]], t[6], {}),
            ("ReduceMean", [t[6]], t[7], {"axes": [1], "keepdims": 1}),
            ("Sub", [t[6], t[7]], t[8], {}),
            ("Sigmoid", [t[8]], t[9], {}),
            ("Mul", [t[8], t[9]], t[10], {}),
        ]:
            nodes.append(helper.make_node(op, reads, [writes], name=f"/layer.{k}/{op}", **more))
        x = t[10]
    return nodes, ("x", [8, 16]), (x, [8, 16])


def wide(op, dims, at_once, *operands):
    """Layers of `at_once` nodes that read the same, and their sum."""
    nodes, x = [], "x"
    while len(nodes) + 2 * at_once - 1 <= NODES:
        names = [f"v{len(nodes) + k}" for k in range(at_once)]
        nodes += [helper.make_node(op, [x, *operands], [name], name=name) for name in names]
        while len(names) > 1:
            a, b, made = *names[:2], f"s{len(nodes)}"
            nodes.append(helper.make_node("Add", [a, b], [made], name=made))
            names = [*names[2:], made]
        x = names[0]
    return nodes, ("x", dims), (x, dims)


def files(folder):
    filters = numpy_helper.from_array(np.full((4, 4, 1, 1), 0.25, np.float32), "w")
    squares = [numpy_helper.from_array(np.eye(16, dtype=np.float32), f"w{k}") for k in range(4)]
    rows = [numpy_helper.from_array(np.zeros(16, np.float32), f"b{k}") for k in range(4)]
    picture = [1, 4, 4, 4]
    for name, (nodes, given, made), weights in [
        ("relu", chain(["Relu"], [2, 3, 4]), []),
        ("layers", layers(), squares + rows),
        ("conv", chain(["Conv"], picture, "w"), [filters]),
        ("conv-relu", chain(["Conv", "Relu"], picture, "w"), [filters]),
        ("wide-relu", wide("Relu", [1, 16], 50_000), []),
        ("wide-conv", wide("Conv", picture, 50, "w"), [filters]),
    ]:
        path = folder / f"{name}.onnx"
        save(path, nodes, weights, given, made)
        yield path


def show(reef, path):
    """What it prints, and how long that took: by the clock, and of the processor."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    said = subprocess.run([reef, "model", "show", path], check=True, capture_output=True).stdout
    took, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return said, (took, after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)


SESSION = """
import onnxruntime, sys, time
options = onnxruntime.SessionOptions()
options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
start = time.perf_counter()
onnxruntime.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
print(time.perf_counter() - start)
"""


def session(path):
    try:
        run = subprocess.run([sys.executable, "-c", SESSION, path], check=True, capture_output=True, text=True, timeout=60)
    except subprocess.TimeoutExpired:
        return "> 60"
    return f"{float(run.stdout):.2f}"


def shown(times):
    clock, processor = map(statistics.median, zip(*times))
    return f"{clock:.2f} ({processor:.2f})"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("reef", nargs="+")
    parser.add_argument("--turns", type=int, default=7)
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    print("| file |", " | ".join([*args.reef, "ONNX Runtime"]), "|")
    for path in files(args.folder):
        ours, said = [[] for _ in args.reef], set()
        for _ in range(args.turns):
            for reef, times in zip(args.reef, ours):
                text, took = show(reef, path)
                times.append(took)
                said.add(text)
        print(f"| {path.stem} |", " | ".join([*map(shown, ours), session(path)]), "|", flush=True)
        if len(said) > 1:
            sys.exit(f"{path}: not the same was printed")


main()
