#!/usr/bin/env python3
"""Times ResNet-50 (random weights, batch norms folded), or the network of a file, in ONNX Runtime, for comparison.

    pip install onnx onnxruntime numpy
    tools/onnxruntime_resnet50.py [threads [rounds [FILE.onnx]]]
"""

import sys
import time

import numpy as np
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

random = np.random.default_rng(50)
nodes, constants = [], []


def constant(*shape):
    name = f"c{len(constants)}"
    value = random.uniform(-0.03, 0.03, shape).astype(np.float32)
    constants.append(numpy_helper.from_array(value, name))
    return name


def node(op, *inputs, **attributes):
    output = f"t{len(nodes)}"
    nodes.append(helper.make_node(op, inputs, [output], **attributes))
    return output


def conv(x, inputs, outputs, size, stride):
    pad = size // 2
    weights, bias = constant(outputs, inputs, size, size), constant(outputs)
    return node("Conv", x, weights, bias, kernel_shape=[size] * 2, strides=[stride] * 2, pads=[pad] * 4)


def bottleneck(x, inputs, channels, stride):
    shortcut = x if inputs == 4 * channels else conv(x, inputs, 4 * channels, 1, stride)
    y = node("Relu", conv(x, inputs, channels, 1, 1))
    y = node("Relu", conv(y, channels, channels, 3, stride))
    return node("Relu", node("Add", conv(y, channels, 4 * channels, 1, 1), shortcut))


def resnet50():
    x = node("Relu", conv("x", 3, 64, 7, 2))
    x = node("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    inputs = 64
    for channels, blocks, stride in [(64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)]:
        for block in range(blocks):
            x = bottleneck(x, inputs, channels, stride if block == 0 else 1)
            inputs = 4 * channels
    x = node("Flatten", node("GlobalAveragePool", x))
    y = node("Gemm", x, constant(1000, 2048), constant(1000), transB=1)
    graph = helper.make_graph(
        nodes,
        "resnet50",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 224, 224])],
        [helper.make_tensor_value_info(y, TensorProto.FLOAT, [1, 1000])],
        constants,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def main():
    threads = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 30
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    model = sys.argv[3] if len(sys.argv) > 3 else resnet50().SerializeToString()
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    kinds = {"tensor(int64)": np.int64, "tensor(float)": np.float32}
    feeds = {port.name: np.ones(port.shape, kinds[port.type]) for port in session.get_inputs()}
    for _ in range(5):
        session.run(None, feeds)
    times, spent = [], []
    for _ in range(rounds):
        start, ran = time.perf_counter(), time.process_time()
        session.run(None, feeds)
        times.append((time.perf_counter() - start) * 1e3)
        spent.append((time.process_time() - ran) * 1e3)
    times.sort()
    spent.sort()
    name = model if isinstance(model, str) else "ResNet-50"
    print(
        f"onnxruntime {ort.__version__}, {name}, {threads} threads: "
        f"p50 {times[rounds // 2]:.2f} ms, best {times[0]:.2f} ms; "
        f"processors p50 {spent[rounds // 2]:.2f} ms, least {spent[0]:.2f} ms of {rounds} rounds"
    )


main()
