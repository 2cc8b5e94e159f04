#!/usr/bin/env python3
"""Writes five networks as ONNX files, with their usual shapes and weights from a seed, without PyTorch.

    pip install onnx numpy
    tools/tensor_networks_light.py FOLDER [NETWORK ...]   # bert, distilbert, vit, convnext, resnet50

Operations are those that PyTorch's exporter writes for opset 17 and fixed shapes: batch 1, 128 tokens or 224 × 224 pixels.
"""

import pathlib
import sys

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save


class Graph:
    """Nodes and constants of a network, in their order."""

    def __init__(self):
        self.random = np.random.default_rng(17)
        self.nodes, self.constants, self.inputs = [], [], []

    def input(self, name, shape, kind=TensorProto.FLOAT):
        self.inputs.append(helper.make_tensor_value_info(name, kind, shape))
        return name

    def constant(self, value):
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def number(self, value):
        return self.constant(np.float32(value))

    def weights(self, *shape, around=0.0):
        return self.constant((around + 0.02 * self.random.standard_normal(shape)).astype(np.float32))

    def node(self, op, *inputs, **attributes):
        output = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [output], **attributes))
        return output

    def shaped(self, x, *shape):
        return self.node("Reshape", x, self.constant(np.array(shape, np.int64)))

    def turned(self, x, *order):
        return self.node("Transpose", x, perm=order)

    def linear(self, x, inputs, outputs):
        product = self.node("MatMul", x, self.weights(inputs, outputs))
        return self.node("Add", self.weights(outputs), product)

    def gemm(self, x, inputs, outputs):
        return self.node("Gemm", x, self.weights(outputs, inputs), self.weights(outputs), transB=1)

    def norm(self, x, width, epsilon):
        scale = self.weights(width, around=1.0)
        return self.node("LayerNormalization", x, scale, self.weights(width), axis=-1, epsilon=epsilon)

    def gelu(self, x):
        erf = self.node("Erf", self.node("Div", x, self.number(2**0.5)))
        return self.node("Mul", self.node("Mul", x, self.node("Add", erf, self.number(1))), self.number(0.5))

    def conv(self, x, inputs, outputs, size, stride=1, groups=1, padding=0):
        filters, bias = self.weights(outputs, inputs // groups, size, size), self.weights(outputs)
        sizes = {"kernel_shape": [size] * 2, "strides": [stride] * 2, "pads": [padding] * 4}
        return self.node("Conv", x, filters, bias, group=groups, dilations=[1, 1], **sizes)

    def save(self, path, output, shape):
        outputs = [helper.make_tensor_value_info(output, TensorProto.FLOAT, shape)]
        graph = helper.make_graph(self.nodes, path.stem, self.inputs, outputs, self.constants)
        save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def heads(g, x, tokens, width, count, *, mask=None, scale_first=False):
    """Attention of `count` heads, up to the joined heads."""
    size = width // count
    split = lambda y: g.shaped(y, 1, tokens, count, size)
    q, k, v = (split(g.linear(x, width, width)) for _ in range(3))
    q, k, v = g.turned(q, 0, 2, 1, 3), g.turned(k, 0, 2, 3, 1), g.turned(v, 0, 2, 1, 3)
    if scale_first:
        q = g.node("Div", q, g.number(size**0.5))
    scores = g.node("MatMul", q, k)
    if not scale_first:
        scores = g.node("Div", scores, g.number(size**0.5))
    if mask:
        scores = g.node("Add", scores, mask)
    sums = g.node("MatMul", g.node("Softmax", scores, axis=-1), v)
    return g.shaped(g.turned(sums, 0, 2, 1, 3), 1, tokens, width)


def text(path, layers, kinds):
    """BERT, or DistilBERT if tokens have no kinds."""
    g, tokens, width = Graph(), 128, 768
    ids = g.input("input_ids", [1, tokens], TensorProto.INT64)
    attend = g.input("attention_mask", [1, tokens], TensorProto.INT64)
    there = g.node("Cast", g.shaped(attend, 1, 1, 1, tokens), to=TensorProto.FLOAT)
    mask = g.node("Mul", g.node("Sub", g.number(1), there), g.number(np.finfo(np.float32).min))
    x = g.node("Gather", g.weights(30522, width), ids, axis=0)
    if kinds:
        x = g.node("Add", x, g.weights(1, tokens, width))
    x = g.norm(g.node("Add", x, g.weights(1, tokens, width)), width, 1e-12)
    for _ in range(layers):
        y = g.linear(heads(g, x, tokens, width, 12, mask=mask), width, width)
        x = g.norm(g.node("Add", y, x), width, 1e-12)
        y = g.linear(g.gelu(g.linear(x, width, 4 * width)), 4 * width, width)
        x = g.norm(g.node("Add", y, x), width, 1e-12)
    x = g.node("Gather", x, g.constant(np.int64(0)), axis=1)
    x = g.node("Tanh" if kinds else "Relu", g.gemm(x, width, width))
    g.save(path, g.gemm(x, width, 2), [1, 2])


def vit(path):
    g, tokens, width = Graph(), 197, 768
    x = g.conv(g.input("input", [1, 3, 224, 224]), 3, width, 16, 16)
    x = g.turned(g.shaped(x, 1, width, 196), 0, 2, 1)
    x = g.node("Concat", g.weights(1, 1, width), x, axis=1)
    x = g.node("Add", x, g.weights(1, tokens, width))
    for _ in range(12):
        y = heads(g, g.norm(x, width, 1e-6), tokens, width, 12, scale_first=True)
        x = g.node("Add", g.linear(y, width, width), x)
        y = g.gelu(g.linear(g.norm(x, width, 1e-6), width, 4 * width))
        x = g.node("Add", x, g.linear(y, 4 * width, width))
    x = g.node("Gather", g.norm(x, width, 1e-6), g.constant(np.int64(0)), axis=1)
    g.save(path, g.gemm(x, width, 1000), [1, 1000])


def convnext(path):
    """ConvNeXt-T: normalisation along channels between two transposes, as its modules do it."""
    g, widths, depths = Graph(), [96, 192, 384, 768], [3, 3, 9, 3]

    def norm_channels(x, width):
        return g.turned(g.norm(g.turned(x, 0, 2, 3, 1), width, 1e-6), 0, 3, 1, 2)

    x = norm_channels(g.conv(g.input("input", [1, 3, 224, 224]), 3, 96, 4, 4), 96)
    for stage, (width, depth) in enumerate(zip(widths, depths)):
        for _ in range(depth):
            y = g.turned(g.conv(x, width, width, 7, groups=width, padding=3), 0, 2, 3, 1)
            y = g.gelu(g.linear(g.norm(y, width, 1e-6), width, 4 * width))
            y = g.turned(g.linear(y, 4 * width, width), 0, 3, 1, 2)
            x = g.node("Add", g.node("Mul", g.weights(width, 1, 1, around=1.0), y), x)
        if stage < 3:
            x = g.conv(norm_channels(x, width), width, widths[stage + 1], 2, 2)
    x = norm_channels(g.node("GlobalAveragePool", x), 768)
    g.save(path, g.gemm(g.node("Flatten", x), 768, 1000), [1, 1000])


def resnet50(path):
    g = Graph()
    x = g.node("Relu", g.conv(g.input("input", [1, 3, 224, 224]), 3, 64, 7, 2, padding=3))
    x, inputs = g.node("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4), 64
    for stage, (width, depth) in enumerate(zip([64, 128, 256, 512], [3, 4, 6, 3])):
        for block in range(depth):
            stride = 2 if stage and not block else 1
            y = g.node("Relu", g.conv(x, inputs, width, 1))
            y = g.node("Relu", g.conv(y, width, width, 3, stride, padding=1))
            y = g.conv(y, width, 4 * width, 1)
            x = g.conv(x, inputs, 4 * width, 1, stride) if not block else x
            x, inputs = g.node("Relu", g.node("Add", y, x)), 4 * width
    g.save(path, g.gemm(g.node("Flatten", g.node("GlobalAveragePool", x)), 2048, 1000), [1, 1000])


MAKERS = {
    "bert": lambda path: text(path, 12, True),
    "distilbert": lambda path: text(path, 6, False),
    "vit": vit,
    "convnext": convnext,
    "resnet50": resnet50,
}


def main(folder, *names):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for name in names or MAKERS:
        MAKERS[name](folder / f"{name}.onnx")
        print(name, flush=True)


if __name__ == "__main__":
    if len(sys.argv) < 2 or set(sys.argv[2:]) - set(MAKERS):
        sys.exit(__doc__)
    main(*sys.argv[1:])
