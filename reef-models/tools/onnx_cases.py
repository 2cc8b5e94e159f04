#!/usr/bin/env python3
"""Small ONNX files that use every operator and attribute that is read, with ONNX Runtime's outputs.

    pip install onnx onnxruntime numpy
    python3 reef-models/tools/onnx_cases.py reef-models/tests/onnx

Writes NAME.onnx and NAME.json for each case; `tests/integration/onnx.rs` reads them. Weights are random from the
case's name, the input is that of `Seeded(1)`.
"""

import json
import sys
import zlib
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from made_up import values
from onnx import TensorProto, helper, numpy_helper

SEED = 1


class Net:
    """A graph under construction; methods append a node and give the name of what it makes."""

    def __init__(self, name, opset, shape, open_sizes=False):
        self.name, self.opset, self.shape = name, opset, shape
        self.random = np.random.default_rng(zlib.crc32(name.encode()))
        self.nodes, self.constants = [], []
        self.declared = ["batch", *shape[1:]] if open_sizes else shape

    def constant(self, value, name=None, raw=True):
        value = np.asarray(value)
        value = value.astype(np.float32) if value.dtype == np.float64 else value
        name = name or f"c{len(self.constants)}"
        if raw:
            tensor = numpy_helper.from_array(value, name)
        else:
            kind = helper.np_dtype_to_tensor_dtype(value.dtype)
            tensor = helper.make_tensor(name, kind, value.shape, value.flatten())
        self.constants.append(tensor)
        return name

    def ints(self, *values):
        return self.constant(np.array(values, dtype=np.int64), raw=len(values) % 2 == 0)

    def weights(self, *shape):
        fan_in = int(np.prod(shape[1:]))
        return self.constant(self.random.uniform(-1, 1, shape) * (6 / fan_in) ** 0.5)

    def vector(self, n, low=-0.3, high=0.3):
        return self.constant(self.random.uniform(low, high, n))

    def node(self, op, *inputs, **attributes):
        output = f"t{len(self.nodes)}"
        name = f"/{op}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [output], name, **attributes))
        return output

    def conv(self, x, inputs, outputs, size=3, stride=1, pads=None, groups=1, bias=False, **more):
        rows, columns = size if isinstance(size, tuple) else (size, size)
        weights = self.weights(outputs, inputs // groups, rows, columns)
        more.setdefault("kernel_shape", [rows, columns])
        if "auto_pad" not in more:
            more["pads"] = pads or [rows // 2, columns // 2] * 2
        operands = [x, weights] + ([self.vector(outputs)] if bias else [])
        return self.node("Conv", *operands, strides=[stride] * 2, group=groups, **more)

    def norm(self, x, channels):
        return self.node(
            "BatchNormalization", x, self.vector(channels, 0.8, 1.2), self.vector(channels),
            self.vector(channels), self.vector(channels, 0.7, 1.3), epsilon=1e-3, momentum=0.9)

    def block(self, x, inputs, outputs, *args, **kwargs):
        """Convolution, normalisation, ReLU."""
        return self.node("Relu", self.norm(self.conv(x, inputs, outputs, *args, **kwargs), outputs))

    def pool(self, kind, x, size, stride, pad=0, **more):
        return self.node(kind, x, kernel_shape=[size] * 2, strides=[stride] * 2, pads=[pad] * 4, **more)

    def clip(self, x, low, high):
        bounds = [self.constant(np.float32(bound)) if bound is not None else "" for bound in (low, high)]
        return self.node("Clip", x, *bounds)

    def gemm(self, x, inputs, outputs):
        return self.node("Gemm", x, self.weights(outputs, inputs), self.vector(outputs), transB=1)

    def model(self, output):
        rank = 4 if self.nodes[-1].op_type.startswith("Global") else 2
        graph = helper.make_graph(
            self.nodes, self.name,
            [helper.make_tensor_value_info("input", TensorProto.FLOAT, self.declared)],
            [helper.make_tensor_value_info(output, TensorProto.FLOAT, [None] * rank)], self.constants)
        opsets = [helper.make_opsetid("", self.opset)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=8, producer_name="reef")
        onnx.checker.check_model(model)
        return model


def resnet(opset):
    """Bottlenecks with and without a convolution in the shortcut, and a basic block."""
    n = Net(f"resnet-{opset}", opset, [1, 3, 32, 32])
    x = n.pool("MaxPool", n.block("input", 3, 12, 7, 2), 3, 2, 1)
    y = n.block(n.block(x, 12, 8, 1), 8, 8)
    y = n.norm(n.conv(y, 8, 20, 1), 20)
    x = n.node("Relu", n.node("Add", y, n.norm(n.conv(x, 12, 20, 1), 20)))
    y = n.norm(n.conv(n.block(x, 20, 20), 20, 20), 20)
    x = n.node("Relu", n.node("Add", x, y))
    x = n.node("Flatten", n.node("GlobalAveragePool", x), axis=1)
    return n, n.gemm(x, 20, 10)


def densenet(opset):
    """Concatenations that grow, with transitions between them."""
    n = Net(f"densenet-{opset}", opset, [1, 3, 32, 32])
    first = n.pool("MaxPool", n.block("input", 3, 10, 7, 2), 3, 2, 1)
    channels = 10
    for depth in (3, 2):
        parts = [first]
        for _ in range(depth):
            x = n.node("Concat", *parts, axis=1)
            x = n.node("Relu", n.norm(x, channels))
            x = n.conv(n.block(x, channels, 8, 1), 8, 6)
            parts.append(x)
            channels += 6
        x = n.node("Relu", n.norm(n.node("Concat", *parts, axis=1), channels))
        if depth == 3:
            first = n.pool("AveragePool", n.conv(x, channels, 14, 1), 2, 2)
            channels = 14
    x = n.node("Flatten", n.node("GlobalAveragePool", x))
    return n, n.gemm(x, channels, 10)


def inception(opset):
    """Branches side by side, windows of one row, means that count padding, `transform_input`."""
    n = Net(f"inception-{opset}", opset, [1, 3, 19, 19])
    shape = n.constant(np.array([1], dtype=np.int64))
    parts = []
    for channel, (scale, shift) in enumerate([(0.458, -0.03), (0.448, -0.088), (0.45, -0.188)]):
        x = n.node("Gather", "input", n.constant(np.array(channel, dtype=np.int64)), axis=1)
        x = n.node("Mul", n.node("Unsqueeze", x, shape), n.constant(np.float32(scale)))
        parts.append(n.node("Add", x, n.constant(np.float32(shift))))
    x = n.block(n.node("Concat", *parts, axis=1), 3, 9, 3, 2, pads=[0] * 4)
    one = n.block(x, 9, 5, 1)
    two = n.block(n.block(n.block(x, 9, 4, 1), 4, 6, (1, 7)), 6, 7, (7, 1))
    three = n.block(n.pool("AveragePool", x, 3, 1, 1, count_include_pad=1), 9, 3, 1)
    x = n.node("Concat", one, two, three, axis=1)
    left = n.block(x, 15, 8, 3, 2, pads=[0] * 4)
    x = n.node("Concat", left, n.pool("MaxPool", x, 3, 2), axis=-3)
    fork = n.block(x, 23, 6, 1)
    fork = n.node("Concat", n.block(fork, 6, 4, (1, 3)), n.block(fork, 6, 5, (3, 1)), axis=1)
    x = n.node("Concat", n.block(x, 23, 4, 1), fork, axis=1)
    x = n.node("Dropout", n.node("GlobalAveragePool", x))
    return n, n.gemm(n.node("Flatten", x), 13, 10)


def vgg(opset):
    """Convolutions with bias, a image that is flattened, linear layers with ReLU."""
    n = Net(f"vgg-{opset}", opset, [1, 3, 28, 28], open_sizes=True)
    x = n.node("Relu", n.conv("input", 3, 6, bias=True))
    x = n.pool("MaxPool", n.node("Relu", n.conv(x, 6, 7, bias=True)), 2, 2)
    x = n.pool("MaxPool", n.node("Relu", n.norm(n.conv(x, 7, 8, bias=True), 8)), 2, 2)
    x = n.node("AveragePool", x, kernel_shape=[1, 1], strides=[1, 1])
    x = n.node("Reshape", x, n.ints(0, -1)) if opset > 13 else n.node("Flatten", x, axis=1)
    x = n.node("Dropout", n.node("Relu", n.gemm(x, 8 * 49, 24)))
    x = n.node("Dropout", n.node("Relu", n.gemm(x, 24, 24)))
    return n, n.gemm(x, 24, 10)


def alexnet(opset):
    """Large strides, overlapping pools, MatMul and Add instead of Gemm."""
    n = Net(f"alexnet-{opset}", opset, [1, 3, 63, 63])
    x = n.node("Relu", n.conv("input", 3, 8, 11, 4, pads=[2] * 4, bias=True))
    x = n.node("Relu", n.conv(n.pool("MaxPool", x, 3, 2), 8, 10, 5, bias=True))
    x = n.node("Relu", n.conv(n.pool("MaxPool", x, 3, 2), 10, 9, bias=True))
    x = n.node("Flatten", x)
    x = n.node("MatMul", x, n.constant(n.random.uniform(-0.2, 0.2, (81, 16))))
    x = n.node("Relu", n.node("Add", x, n.vector(16)))
    turned = n.node("Transpose", n.weights(10, 16), perm=[1, 0])
    return n, n.node("Add", n.vector(10), n.node("MatMul", x, turned))


def mobilenet(opset):
    """Depthwise convolutions, ReLU6, sums without ReLU, the mean of rows and columns."""
    n = Net(f"mobilenet-{opset}", opset, [1, 3, 32, 32])
    six = lambda x: n.clip(x, 0.0, 6.0)
    x = six(n.norm(n.conv("input", 3, 8, 3, 2), 8))
    x = six(n.norm(n.conv(x, 8, 8, 3, 1, groups=8), 8))
    x = n.norm(n.conv(x, 8, 6, 1), 6)
    for stride, outputs in (1, 6), (2, 9), (1, 9):
        inputs = 6 if outputs == 6 or stride == 2 else 9
        y = six(n.norm(n.conv(x, inputs, 24, 1), 24))
        y = six(n.norm(n.conv(y, 24, 24, 3, stride, groups=24), 24))
        y = n.norm(n.conv(y, 24, outputs, 1), outputs)
        x = n.node("Add", x, y) if stride == 1 else y
    x = six(n.norm(n.conv(x, 9, 20, 1), 20))
    if opset < 18:
        x = n.node("ReduceMean", x, axes=[2, 3], keepdims=0)
    else:
        x = n.node("ReduceMean", x, n.ints(-1, -2), keepdims=1)
        size = n.node("Gather", n.node("Shape", x), n.ints(0))
        x = n.node("Reshape", x, n.node("Concat", size, n.ints(-1), axis=0))
    return n, n.gemm(n.node("Dropout", x), 20, 10)


def mobilenet3(opset):
    """Squeeze-and-excitation, HardSwish as the exporters write it at each operator set, products."""
    n = Net(f"mobilenet3-{opset}", opset, [2, 3, 33, 31])
    gate = lambda x: n.node("HardSigmoid", x, alpha=1 / 6, beta=0.5)
    if opset >= 14:
        swish = lambda x: n.node("HardSwish", x)
    else:
        swish = lambda x: n.node("Mul", x, gate(x))
    number = lambda value: n.constant(np.float32(value))

    def taken_apart(x):
        y = n.clip(n.node("Add", x, number(3.0)), 0.0, 6.0)
        return n.node("Div", n.node("Mul", x, y), number(6.0))

    def squeeze(x, channels):
        y = n.node("GlobalAveragePool", x)
        y = n.node("Relu", n.conv(y, channels, 4, 1, bias=True))
        return n.node("Mul", gate(n.conv(y, 4, channels, 1, bias=True)), x)

    x = swish(n.norm(n.conv("input", 3, 7, 3, 2), 7))
    for inputs, wide, outputs, stride in (7, 7, 6, 2), (6, 25, 9, 1), (9, 20, 9, 1):
        y = swish(n.norm(n.conv(x, inputs, wide, 1), wide))
        y = n.norm(n.conv(y, wide, wide, 5, stride, groups=wide), wide)
        y = squeeze(n.node("Relu", y) if wide == 7 else swish(y), wide)
        y = n.norm(n.conv(y, wide, outputs, 1), outputs)
        x = n.node("Add", x, y) if inputs == outputs else y
    x = taken_apart(n.norm(n.conv(x, 9, 24, 1), 24))
    x = n.node("Concat", x, n.node("Mul", x, x), gate(x), axis=1)
    x = n.norm(n.node("Mul", x, n.node("Relu", x)), 72)  # not a convolution's
    x = n.node("Flatten", n.node("GlobalAveragePool", x), axis=1)
    return n, n.gemm(n.node("Dropout", swish(n.gemm(x, 72, 30))), 30, 10)


def odd(opset):
    """What other exporters write, and what nothing can be fused into."""
    n = Net(f"odd-{opset}", opset, [2, 3, 17, 15])
    x = n.norm("input", 3)  # the input is normalised, pooled and added to itself
    x = n.node("Add", x, n.pool("MaxPool", "input", 3, 1, 1))
    x = n.node("Sub", n.constant(np.float32(0.5)), n.node("Add", x, x))
    x = n.conv(x, 3, 6, 3, 2, auto_pad="SAME_UPPER")
    x = n.conv(n.clip(x, -0.5, 2.0), 6, 8, 3, 1, pads=[2, 0, 1, 3], groups=2, dilations=[2, 1])
    low, high = n.clip(x, None, 0.7), n.clip(x, 0.1, None)
    x = n.node("Div", n.node("Concat", low, high, low, axis=1), n.constant(np.full((24, 1, 1), 1.5)))
    pools = [n.pool("MaxPool", x, 2, 1), n.pool("AveragePool", x, 2, 1, ceil_mode=1)]
    x = n.node("Relu", n.node("Add", *pools))
    x = n.node("Mul", n.node("Identity", x), n.vector((1, 24, 1, 1), 0.5, 1.5))
    both = n.node("Relu", n.node("Concat", x, n.conv(x, 24, 4), axis=1))
    x = n.node("GlobalMaxPool", n.node("Add", both, n.conv(both, 28, 28, 1)))
    return n, n.node("Squeeze", x, n.ints(2, 3))


def skip(opset):
    """The output of one step is added, concatenated and pooled."""
    n = Net(f"skip-{opset}", opset, [1, 16, 8, 8])
    x = n.node("Relu", n.conv("input", 16, 16, groups=4))
    y = n.conv(x, 16, 16)
    cat = n.node("Concat", x, y, "input", axis=1)
    z = n.node("Add", cat, n.conv(cat, 48, 48, groups=48))
    x = n.node("Concat", z, cat, n.node("Add", x, y), axis=1)
    return n, n.node("GlobalAveragePool", x)


CASES = [
    (resnet, 13), (resnet, 21), (densenet, 13), (densenet, 18), (inception, 13), (inception, 20),
    (vgg, 13), (vgg, 19), (alexnet, 14), (mobilenet, 13), (mobilenet, 18), (mobilenet, 21),
    (mobilenet3, 13), (mobilenet3, 18), (odd, 13), (odd, 21), (skip, 17),
]


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: onnx_cases.py OUTPUT_DIRECTORY")
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    for make, opset in CASES:
        net, output = make(opset)
        model = net.model(output)
        image = values("input", tuple(net.shape), 0.0, 1.0, SEED)
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        session = onnxruntime.InferenceSession(model.SerializeToString(), options)
        result = session.run(None, {"input": image})[0].reshape(-1)
        onnx.save(model, out / f"{net.name}.onnx")
        record = {"seed": SEED, "logits": [float(f"{float(value):.7g}") for value in result]}
        (out / f"{net.name}.json").write_text(json.dumps(record) + "\n")
        size = (out / f"{net.name}.onnx").stat().st_size
        print(f"{net.name}: {len(net.nodes)} nodes, {size} bytes, {result.min():.3f} to {result.max():.3f}")


if __name__ == "__main__":
    main()
