"""Writes a ResNet with seeded weights as ONNX, with nothing but numpy: both servers read this file.

The numbers of the fields are those of onnx.proto3 (https://github.com/onnx/onnx/blob/main/onnx/onnx.proto3).
"""

import numpy as np

FLOAT, INT, INTS = 1, 2, 7
LAYERS = {"resnet18": ([2, 2, 2, 2], False), "resnet50": ([3, 4, 6, 3], True)}


def varint(n):
    out = bytearray()
    while n > 0x7F:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    return bytes(out) + bytes([n])


def number(field, n):
    return varint(field << 3) + varint(n)


def blob(field, data):
    data = data.encode() if isinstance(data, str) else data
    return varint(field << 3 | 2) + varint(len(data)) + data


def attribute(name, value):
    if isinstance(value, int):
        return blob(1, name) + number(3, value) + number(20, INT)
    return blob(1, name) + b"".join(number(8, n) for n in value) + number(20, INTS)


def value(name, shape):
    dims = b"".join(blob(1, number(1, n)) for n in shape)
    return blob(1, name) + blob(2, blob(1, number(1, FLOAT) + blob(2, dims)))


class Graph:
    def __init__(self, seed):
        self.random, self.nodes, self.constants = np.random.default_rng(seed), [], []

    def constant(self, shape, scale):
        name = f"c{len(self.constants)}"
        data = (self.random.standard_normal(shape) * scale).astype("<f4").tobytes()
        dims = b"".join(number(1, n) for n in shape)
        self.constants.append(dims + number(2, FLOAT) + blob(8, name) + blob(9, data))
        return name

    def node(self, op, *inputs, **attributes):
        output = f"t{len(self.nodes)}"
        names = b"".join(blob(1, name) for name in inputs) + blob(2, output)
        said = b"".join(blob(5, attribute(*pair)) for pair in attributes.items())
        self.nodes.append(names + blob(3, output) + blob(4, op) + said)
        return output

    def conv(self, x, inputs, outputs, size, stride, scale=1.0):
        weights = self.constant((outputs, inputs, size, size), scale * (2 / (inputs * size * size)) ** 0.5)
        bias, pad = self.constant((outputs,), 0.01), size // 2
        shape = {"kernel_shape": [size] * 2, "strides": [stride] * 2, "pads": [pad] * 4}
        return self.node("Conv", x, weights, bias, **shape)

    def relu(self, x):
        return self.node("Relu", x)

    def block(self, x, inputs, channels, stride, is_bottleneck):
        outputs = 4 * channels if is_bottleneck else channels
        same = inputs == outputs and stride == 1
        shortcut = x if same else self.conv(x, inputs, outputs, 1, stride)
        if is_bottleneck:
            y = self.relu(self.conv(x, inputs, channels, 1, 1))
            y = self.relu(self.conv(y, channels, channels, 3, stride))
            y = self.conv(y, channels, outputs, 1, 1, 0.3)
        else:
            y = self.relu(self.conv(x, inputs, channels, 3, stride))
            y = self.conv(y, channels, outputs, 3, 1, 0.3)
        return self.relu(self.node("Add", y, shortcut)), outputs


def write(path, name="resnet50", size=224, seed=50):
    """Writes the network `name` for pictures of `size` by `size` to `path`."""
    (layers, is_bottleneck), graph = LAYERS[name], Graph(seed)
    x = graph.relu(graph.conv("input", 3, 64, 7, 2))
    x = graph.node("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    inputs = 64
    for channels, blocks, stride in zip([64, 128, 256, 512], layers, [1, 2, 2, 2]):
        for number_ in range(blocks):
            step = stride if number_ == 0 else 1
            x, inputs = graph.block(x, inputs, channels, step, is_bottleneck)
    x = graph.node("Flatten", graph.node("GlobalAveragePool", x))
    weights, bias = graph.constant((1000, inputs), inputs**-0.5), graph.constant((1000,), 0.01)
    y = graph.node("Gemm", x, weights, bias, transB=1)
    body = b"".join(blob(1, node) for node in graph.nodes) + blob(2, name)
    body += b"".join(blob(5, tensor) for tensor in graph.constants)
    body += blob(11, value("input", [1, 3, size, size])) + blob(12, value(y, [1, 1000]))
    with open(path, "wb") as file:
        file.write(number(1, 8) + blob(7, body) + blob(8, blob(1, "") + number(2, 17)))
