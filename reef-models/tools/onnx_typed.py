"""A small network with inputs and outputs of several types, for tests of readers and servers.

usage: python3 onnx_typed.py FILE.onnx      (numpy, onnx)
"""

import sys

import numpy as np
from onnx import TensorProto as T
from onnx import checker, helper, numpy_helper, save

TABLE = np.arange(24, dtype=np.float32).reshape(8, 3) / 8


def network():
    """tokens and mask of [batch, 4], bias of 3 halves -> hidden, best and hidden away."""
    node, value = helper.make_node, helper.make_tensor_value_info
    nodes = [
        node("Gather", ["table", "tokens"], ["rows"]),
        node("Cast", ["bias"], ["wide"], to=T.FLOAT),
        node("Add", ["rows", "wide"], ["sums"]),
        node("Unsqueeze", ["mask", "last"], ["column"]),
        node("Where", ["column", "sums", "zero"], ["hidden"]),
        node("ArgMax", ["hidden"], ["best"], axis=-1, keepdims=0),
        node("Not", ["mask"], ["masked"]),
    ]
    inputs = [
        value("tokens", T.INT64, ["batch", 4]),
        value("mask", T.BOOL, ["batch", 4]),
        value("bias", T.FLOAT16, [3]),
    ]
    outputs = [
        value("hidden", T.FLOAT, ["batch", 4, 3]),
        value("best", T.INT64, ["batch", 4]),
        value("masked", T.BOOL, ["batch", 4]),
    ]
    constants = {"table": TABLE, "last": np.array([-1]), "zero": np.float32(0)}
    constants = [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "typed", inputs, outputs, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


if __name__ == "__main__":
    model = network()
    checker.check_model(model)
    save(model, sys.argv[1])
