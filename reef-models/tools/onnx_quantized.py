#!/usr/bin/env python3
"""A small network for images in floats and as ONNX Runtime's quantize_static writes it, with ONNX Runtime's outputs.

    pip install onnx onnxruntime numpy
    python3 reef-models/tools/onnx_quantized.py reef-models/tests/onnx_quantized

Writes NAME.onnx for each way to quantize it, and cases.json: images, the outputs of floats and of each file, and the numbers
that some convolutions read and make.
`tests/integration/eight_bits/files.rs` reads them. Filters are random; the last layer is fitted to four kinds of images, so
that classes are far apart.
"""

import json
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

SIZE, CHANNELS, CLASSES = 10, 16, 4
# Keeps the weights of the last layer small, so that it doesn't enlarge what is rounded before it.
RIDGE = 1.0
random = np.random.default_rng(47)


def images(count):
    """Stripes down, stripes across, a spot and a cross, with noise; and which of these each is."""
    y, x = np.mgrid[0:SIZE, 0:SIZE]
    made, kinds = [], []
    for k in range(count):
        kind, phase, level = k % CLASSES, random.uniform(0, 6), random.uniform(0.7, 1.3, 3)
        row, column = random.uniform(3, 6, 2)
        plane = [
            np.sin(1.5 * x + phase),
            np.sin(1.5 * y + phase),
            2 * np.exp(-((x - column) ** 2 + (y - row) ** 2) / 6) - 1,
            np.where((abs(x - column) < 1) | (abs(y - row) < 1), 1.0, -0.5),
        ][kind]
        image = plane * level[:, None, None] + random.normal(0, 0.1, (3, SIZE, SIZE))
        made.append(np.round(image, 2).astype(np.float32))
        kinds.append(kind)
    return np.stack(made), np.array(kinds)


def network(last):
    """Convolutions with and without ReLU, one of each channel by itself, a residual, a maximum, a mean and a layer of all."""
    constants, nodes = {}, []

    def conv(x, y, inputs, outputs, size, groups=1, stride=1):
        # Filters differ in size, so that one scale for all of them is worse than one for each.
        sizes = random.uniform(0.3, 1.5, (outputs, 1, 1, 1))
        shape = (outputs, inputs // groups, size, size)
        weights = sizes * random.normal(0, (1.5 / np.prod(shape[1:])) ** 0.5, shape)
        constants[f"{y}_w"], constants[f"{y}_b"] = weights, random.normal(0, 0.2, outputs)
        nodes.append(helper.make_node("Conv", [x, f"{y}_w", f"{y}_b"], [y], y, group=groups, kernel_shape=[size] * 2,
                                      pads=[size // 2] * 4, strides=[stride] * 2))

    def node(op, inputs, output, **attributes):
        nodes.append(helper.make_node(op, inputs, [output], output, **attributes))

    conv("x", "c0", 3, CHANNELS, 3)
    node("Relu", ["c0"], "r0")
    node("MaxPool", ["r0"], "m", kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    conv("m", "c1", CHANNELS, CHANNELS, 3)
    node("Relu", ["c1"], "r1")
    conv("r1", "c2", CHANNELS, CHANNELS, 1)
    node("Add", ["c2", "m"], "a")
    node("Relu", ["a"], "r2")
    conv("r2", "c3", CHANNELS, CHANNELS, 3, groups=CHANNELS)
    node("Relu", ["c3"], "r3")
    node("GlobalAveragePool", ["r3"], "g")
    node("Flatten", ["g"], "f")
    constants["y_w"], constants["y_b"] = last
    node("Gemm", ["f", "y_w", "y_b"], "y", transB=1)
    stored = [numpy_helper.from_array(np.asarray(v, np.float32), k) for k, v in constants.items()]
    ends = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, SIZE, SIZE]),
            helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", CLASSES])]
    graph = helper.make_graph(nodes, "small", ends[:1], ends[1:], stored)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def run(model, x, *outputs):
    model = model.SerializeToString() if isinstance(model, onnx.ModelProto) else str(model)
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    return np.concatenate([session.run(outputs or None, {"x": image[None]})[0] for image in x])


def fitted(x, kinds):
    """The network whose last layer gives the most to the kind that an image is, by least squares with a penalty."""
    global random
    state = random.bit_generator.state
    model = network((np.eye(CLASSES, CHANNELS), np.zeros(CLASSES)))
    model.graph.output.append(helper.make_tensor_value_info("f", TensorProto.FLOAT, None))
    features = run(model, x, "f")
    ones = np.hstack([features, np.ones((len(x), 1))])
    squares = ones.T @ ones + RIDGE * np.eye(CHANNELS + 1)
    weights = np.linalg.solve(squares, ones.T @ (4 * np.eye(CLASSES)[kinds])).T
    random.bit_generator.state = state
    return network((weights[:, :-1], weights[:, -1]))


def step_of_output(model):
    """The scale of the numbers of 8 bits that become the output."""
    maker = next(node for node in model.graph.node if "y" in node.output)
    stored = {tensor.name: tensor for tensor in model.graph.initializer}
    return float(str(numpy_helper.to_array(stored[maker.input[1]]).ravel()[0]))


def layer(path, name, image):
    """Numbers that a convolution of a file reads and makes for an image, and all that it is made of."""
    model = onnx.load(path)
    stored = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    maker = {output: node for node in model.graph.node for output in node.output}
    conv = next(node for node in model.graph.node if node.name == name)
    readers = [node for node in model.graph.node if conv.output[0] in node.input]
    x, w, b = (maker[value] for value in conv.input)  # they are dequantized
    (y,) = readers  # and the output is quantized
    ends = [x.input[0], y.output[0]]
    model.graph.output.extend(helper.make_tensor_value_info(end, TensorProto.INT8, None) for end in ends)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    read, made = session.run(ends, {"x": image[None]})
    scales = [numbers(np.atleast_1d(stored[node.input[1]])) for node in (x, w, y)]
    zeros = [int(np.atleast_1d(stored[node.input[2]])[0]) for node in (x, y)]
    filters = stored[w.input[0]]
    return {"shape": list(read.shape[1:]), "window": filters.shape[-1], "scale_x": scales[0][0], "zero_x": zeros[0],
            "scales": scales[1] * (len(filters) // len(scales[1])), "scale_y": scales[2][0], "zero_y": zeros[1],
            "weights": filters.ravel().tolist(), "bias": stored[b.input[0]].ravel().tolist(),
            "input": read.ravel().tolist(), "output": made.ravel().tolist()}


class Samples(CalibrationDataReader):
    def __init__(self, x):
        self.left = iter(x)

    def get_next(self):
        image = next(self.left, None)
        return None if image is None else {"x": image[None]}


QDQ = QuantFormat.QDQ
WAYS = {
    "operators": {"quant_format": QuantFormat.QOperator, "per_channel": True},
    "per_channel": {"quant_format": QDQ, "per_channel": True},
    "per_tensor": {"quant_format": QDQ},
    "symmetric": {"quant_format": QDQ, "per_channel": True, "extra_options": {"ActivationSymmetric": True}},
    "unsigned": {"quant_format": QDQ, "activation_type": QuantType.QUInt8},
}


def numbers(array):
    """Its values, each in as few digits as singles need."""
    return [float(str(x)) for x in array.ravel()]


def main(folder):
    x, kinds = images(160)
    floats = fitted(x, kinds)
    seen, checks = x[:-8], x[-8:]
    want = run(floats, checks)
    case = {"images": numbers(checks), "kinds": kinds[-8:].tolist(), "floats": numbers(want), "files": {}}
    with tempfile.TemporaryDirectory() as made:
        path = Path(made) / "floats.onnx"
        onnx.save(floats, path)
        for name, options in WAYS.items():
            to = folder / f"{name}.onnx"
            quantize_static(path, to, Samples(seen), **options)
            got = run(to, checks)
            step = step_of_output(onnx.load(to))
            case["files"][name] = {"step": step, "outputs": numbers(got)}
            print(f"{name}: off by {abs(got - want).max():.4f}, {(got.argmax(1) == kinds[-8:]).sum()} of {len(got)} right")
    layers = [(way, name) for way in ("per_tensor", "symmetric") for name in ("c1", "c2")]
    case["layers"] = {f"{way}/{name}": layer(folder / f"{way}.onnx", name, checks[0]) for way, name in layers}
    (folder / "cases.json").write_text(json.dumps(case, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
