#!/usr/bin/env python3
"""Small ONNX files of the kinds that exporters and optimizers write, with ONNX Runtime's outputs.

    pip install onnx onnxruntime numpy
    python3 reef-models/tools/onnx_runtime.py reef-models/tests/onnx_runtime

Writes NAME.onnx and NAME.json (types, sizes and values of inputs and outputs) for each case;
`tests/integration/onnx_domains/runtime.rs` reads them. Inputs are random from the case's name.
"""

import json
import sys
import zlib
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto as T
from onnx import helper, numpy_helper

MS = "com.microsoft"
node = helper.make_node


def kind(array):
    return helper.np_dtype_to_tensor_dtype(array.dtype)


def tensor(array):
    """Its type, sizes and values; of halves their bits."""
    name = str(array.dtype)
    array = array.view(np.uint16) if array.dtype == np.float16 else array
    read = (lambda x: float(f"{x:.9g}")) if array.dtype.kind == "f" else int
    values = [read(x) for x in array.ravel().tolist()]
    return {"element": name, "dims": list(array.shape), "values": values}


def write(folder, name, nodes, inputs, outputs, constants=(), opset=21, functions=()):
    """Runs the graph and writes it with its inputs and outputs."""
    given = [helper.make_tensor_value_info(k, kind(v), v.shape) for k, v in inputs.items()]
    made = [helper.make_tensor_value_info(k, t, None) for k, t in outputs.items()]
    stored = [numpy_helper.from_array(np.asarray(v), k) for k, v in dict(constants).items()]
    graph = helper.make_graph(nodes, name, given, made, stored)
    sets = [helper.make_opsetid("", opset), helper.make_opsetid(MS, 1)]
    model = helper.make_model(graph, opset_imports=sets, ir_version=10)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    results = session.run(None, inputs)
    case = {"inputs": {k: tensor(v) for k, v in inputs.items()}, "outputs": [tensor(r) for r in results]}
    onnx.save(model, folder / f"{name}.onnx")
    (folder / f"{name}.json").write_text(json.dumps(case, separators=(",", ":")) + "\n")


def random(name):
    return np.random.default_rng(zlib.crc32(name.encode()))


def decoder(folder, name, batch=1, new=1, past=0, total=None, lengths=None, *, heads=4, shared=2, columns=16,
            turned=0, interleaved=0, packed=False, window=0, type_=np.float32, **more):
    """`GroupQueryAttention`, with a cache."""
    draw = random(name)
    values = lambda *shape: draw.uniform(-1, 1, shape).astype(type_)
    total = total or new
    inputs = {"q": values(batch, new, (heads + (2 * shared if packed else 0)) * columns)}
    if not packed:
        inputs |= {k: values(batch, new, shared * columns) for k in "kv"}
    inputs |= {k: values(batch, shared, past, columns) for k in ("past_k", "past_v")}
    numbers, counted = np.array(lengths or [total - 1] * batch, np.int32), more.pop("counted", False)
    inputs |= {} if counted else {"lengths": numbers}
    names = ["q", *(["", ""] if packed else "kv"), "past_k", "past_v", "lengths", "total"]
    constants = {"total": np.array(total, np.int32)} | ({"lengths": numbers} if counted else {})
    attributes = {"num_heads": heads, "kv_num_heads": shared}
    attributes |= {"local_window_size": window} if window else {}
    if turned:
        angles = np.outer(np.arange(32), 1e4 ** (-np.arange(turned // 2) / (turned // 2)))
        constants |= {"cos": np.cos(angles).astype(type_), "sin": np.sin(angles).astype(type_)}
        attributes |= {"do_rotary": 1, "rotary_interleaved": interleaved}
    names += ["cos", "sin"] if turned else ["", ""]
    bias, sink = more.pop("bias", False), more.pop("sink", False)
    if bias:
        inputs["bias"] = values(1, heads, new, total)
    if sink:
        inputs["sink"] = values(heads)
    names += ["", "bias" if bias else "", "sink" if sink else ""]
    while not names[-1]:
        names.pop()
    attributes |= more
    outputs = dict.fromkeys(("y", "keys", "values"), helper.np_dtype_to_tensor_dtype(np.dtype(type_)))
    nodes = [node("GroupQueryAttention", names, list(outputs), "attention", domain=MS, **attributes)]
    write(folder, name, nodes, inputs, outputs, constants)


def decoders(folder):
    decoder(folder, "decoder_prompt", new=4, turned=16)
    decoder(folder, "decoder_step", past=5, total=6, turned=16)
    decoder(folder, "decoder_counted", past=5, total=6, turned=16, counted=True)
    decoder(folder, "decoder_ragged", batch=2, past=5, total=6, lengths=[5, 3], turned=16)
    decoder(folder, "decoder_buffer", past=10, total=6, lengths=[5], turned=16)
    decoder(folder, "decoder_prompt_in_buffer", new=3, past=8, turned=16)
    decoder(folder, "decoder_chunk", new=3, past=5, total=8, turned=16, interleaved=1)
    decoder(folder, "decoder_packed", new=3, packed=True, turned=16, columns=32)
    decoder(folder, "decoder_window", new=6, window=3, softcap=2.0, scale=0.7)
    decoder(folder, "decoder_window_step", past=7, total=8, window=3, smooth_softmax=1)
    decoder(folder, "decoder_bias", new=3, bias=True)
    decoder(folder, "decoder_sink", new=3, sink=True)
    decoder(folder, "decoder_halves", past=3, total=4, turned=16, type_=np.float16)


def body(name, nodes, inputs, outputs, constants=()):
    """A graph of a node; types by name, sizes open."""
    sizes = lambda name: [] if name in ("i", "going", "still") else None
    given = [helper.make_tensor_value_info(k, t, sizes(k)) for k, t in inputs.items()]
    made = [helper.make_tensor_value_info(k, t, sizes(k)) for k, t in outputs.items()]
    stored = [numpy_helper.from_array(np.asarray(v), k) for k, v in dict(constants).items()]
    return helper.make_graph(nodes, name, given, made, stored)


def loops(folder):
    x = random("loops").uniform(-1, 1, (2, 3)).astype(np.float32)
    counted = body(
        "counted",
        [node("Cast", ["i"], ["f"], to=T.FLOAT), node("Add", ["h", "f"], ["h1"]), node("Mul", ["h1", "x"], ["part"]),
         node("Identity", ["going"], ["still"])],
        {"i": T.INT64, "going": T.BOOL, "h": T.FLOAT}, {"still": T.BOOL, "h1": T.FLOAT, "part": T.FLOAT})
    write(folder, "loop_counted", [node("Loop", ["count", "", "x"], ["last", "parts"], body=counted)], {"x": x},
          {"last": T.FLOAT, "parts": T.FLOAT}, {"count": np.int64(4)})
    # A cache that grows, as scripted modules have it, for as many steps as the input has rows.
    growing = body(
        "growing", [node("Concat", ["h", "x"], ["h1"], axis=0), node("Identity", ["going"], ["still"])],
        {"i": T.INT64, "going": T.BOOL, "h": T.FLOAT}, {"still": T.BOOL, "h1": T.FLOAT})
    nodes = [node("Shape", ["x"], ["shape"]), node("Gather", ["shape", "zero"], ["rows"]),
             node("Loop", ["rows", "yes", "x"], ["y"], body=growing)]
    write(folder, "loop_growing", nodes, {"x": x}, {"y": T.FLOAT}, {"zero": np.int64(0), "yes": np.bool_(True)})
    # It ends when data say so, at a bound at the latest.
    doubled = body(
        "doubled", [node("Add", ["h", "h"], ["h1"]), node("ReduceMax", ["h1"], ["most"], keepdims=0),
                    node("Less", ["most", "bound"], ["still"])],
        {"i": T.INT64, "going": T.BOOL, "h": T.FLOAT}, {"still": T.BOOL, "h1": T.FLOAT})
    write(folder, "loop_until", [node("Loop", ["count", "yes", "x"], ["y"], body=doubled)],
          {"x": np.abs(x)}, {"y": T.FLOAT},
          {"count": np.int64(9), "yes": np.bool_(True), "bound": np.float32(5)})
    summed = body("summed", [node("Add", ["s", "row"], ["s1"]), node("Mul", ["s1", "row"], ["part"])],
                  {"s": T.FLOAT, "row": T.FLOAT}, {"s1": T.FLOAT, "part": T.FLOAT})
    for name, more in {"scan_forward": {}, "scan_backward": {
            "scan_input_axes": [1], "scan_input_directions": [1], "scan_output_axes": [-1],
            "scan_output_directions": [1]}}.items():
        first = np.zeros(3 if not more else 2, np.float32)
        write(folder, name, [node("Scan", ["first", "x"], ["last", "parts"], body=summed, num_scan_inputs=1, **more)],
              {"x": x}, {"last": T.FLOAT, "parts": T.FLOAT}, {"first": first})


def numbers_of(name, *shape, type_=np.uint8):
    limits = np.iinfo(type_)
    return random(name).integers(limits.min, limits.max + 1, shape).astype(type_)


def quantized(folder):
    x = numbers_of("quantized", 1, 2, 4, 4)
    scales = {"a": np.float32(0.05), "za": np.uint8(120), "b": np.float32(0.04), "zb": np.uint8(100)}
    of = {"a": scales["a"], "za": scales["za"], "b": scales["b"], "zb": scales["zb"]}
    pooled = node("QLinearAveragePool", ["x", "a", "za", "b", "zb"], ["y"], domain=MS, kernel_shape=[3, 3],
                  strides=[2, 2], pads=[1, 1, 1, 1])
    write(folder, "qlinear_average_pool", [pooled], {"x": x}, {"y": T.UINT8}, of)
    pooled = node("QLinearAveragePool", ["x", "a", "za", "b", "zb"], ["y"], domain=MS, kernel_shape=[2, 2],
                  count_include_pad=1, pads=[1, 1, 0, 0])
    write(folder, "qlinear_average_pool_with_pads", [pooled], {"x": x}, {"y": T.UINT8}, of)
    pooled = node("QLinearGlobalAveragePool", ["x", "a", "za", "b", "zb"], ["y"], domain=MS)
    write(folder, "qlinear_global_average_pool", [pooled], {"x": x}, {"y": T.UINT8}, of)
    soft = node("QLinearSoftmax", ["x", "a", "za", "b", "zb"], ["y"], domain=MS, axis=-1, opset=13)
    soft_of = of | {"b": np.float32(1 / 256), "zb": np.uint8(0)}
    write(folder, "qlinear_softmax", [soft], {"x": x}, {"y": T.UINT8}, soft_of)
    soft = node("QLinearSoftmax", ["x", "a", "za", "b", "zb"], ["y"], domain=MS, axis=1, opset=12)
    write(folder, "qlinear_softmax_flat", [soft], {"x": x}, {"y": T.UINT8}, soft_of)
    other = numbers_of("other", 1, 2, 4, 4)
    three = of | {"c": np.float32(0.08), "zc": np.uint8(110)}
    for op in ("Add", "Mul"):
        both = node(f"QLinear{op}", ["x", "a", "za", "z", "b", "zb", "c", "zc"], ["y"], domain=MS)
        write(folder, f"qlinear_{op.lower()}", [both], {"x": x, "z": other}, {"y": T.UINT8}, three)
    joined = node("QLinearConcat", ["c", "zc", "x", "a", "za", "z", "b", "zb"], ["y"], domain=MS, axis=1)
    write(folder, "qlinear_concat", [joined], {"x": x, "z": other}, {"y": T.UINT8}, three)
    for op in ("LeakyRelu", "Sigmoid"):
        one = node(f"QLinear{op}", ["x", "a", "za", "b", "zb"], ["y"], domain=MS)
        write(folder, f"qlinear_{op.lower()}", [one], {"x": x}, {"y": T.UINT8}, of)


def corners(draw, *shape):
    """Boxes by two corners in any order, many of which overlap."""
    centres, sizes = draw.uniform(0, 4, (*shape, 2)), draw.uniform(0.5, 2, (*shape, 2))
    return np.concatenate([centres - sizes / 2, centres + sizes / 2], -1).astype(np.float32)


def detections(folder):
    """What detection heads and masks have: data decide about the number of results."""
    draw = random("detections")
    boxes, scores = corners(draw, 2, 12), draw.uniform(0, 1, (2, 3, 12)).astype(np.float32)
    both, names = {"boxes": boxes, "scores": scores}, ["boxes", "scores", "most", "overlap", "least"]
    of = {"most": np.int64(5), "overlap": np.float32(0.2), "least": np.float32(0.3)}
    chosen = node("NonMaxSuppression", names, ["chosen"])
    write(folder, "boxes_of_corners", [chosen], both, {"chosen": T.INT64}, of)
    flipped = {"boxes": boxes[..., [2, 1, 0, 3]], "scores": scores}
    write(folder, "boxes_of_flipped_corners", [chosen], flipped, {"chosen": T.INT64}, of)
    centred = node("NonMaxSuppression", names[:4], ["chosen"], center_point_box=1)
    by_centre = {"boxes": np.concatenate([boxes[..., :2] + 1, boxes[..., 2:] / 2], -1), "scores": scores}
    write(folder, "boxes_of_centres", [centred], by_centre, {"chosen": T.INT64}, {k: of[k] for k in names[2:4]})
    high = of | {"least": np.float32(2)}
    write(folder, "boxes_of_no_class", [chosen], both, {"chosen": T.INT64}, high)
    # As YOLO's end: rows of box, score and class, the first 4 of them.
    one = {"boxes": boxes[:1], "scores": scores[:1]}
    of |= {"axis": np.int64([1]), "two": np.int64(2), "first": np.int64(1), "from": np.int64([0]), "to": np.int64([4]),
           "rows": np.int64([0]), "all": np.int64([-1, 1]), "wh": np.float32([640, 480, 640, 480])}
    head = [
        chosen, node("Gather", ["chosen", "two"], ["box"], axis=1), node("Gather", ["chosen", "first"], ["class"], axis=1),
        node("Squeeze", ["boxes", "rows"], ["flat"]), node("Gather", ["flat", "box"], ["corners"], axis=0),
        node("Mul", ["corners", "wh"], ["scaled"]),
        node("GatherND", ["scores", "chosen"], ["score"]), node("Unsqueeze", ["score", "axis"], ["column"]),
        node("Cast", ["class"], ["number"], to=T.FLOAT), node("Reshape", ["number", "all"], ["numbers"]),
        node("Concat", ["scaled", "column", "numbers"], ["found"], axis=1),
        node("Slice", ["found", "from", "to", "rows"], ["best"]),
    ]
    write(folder, "boxes_of_a_head", head, one, {"found": T.FLOAT, "best": T.FLOAT, "box": T.INT64}, of)
    x = np.round(draw.uniform(-1.4, 1.4, (3, 4))).astype(np.float32)
    write(folder, "places_of_nonzero", [node("NonZero", ["x"], ["y"]), node("Transpose", ["y"], ["z"])], {"x": x},
          {"y": T.INT64, "z": T.INT64})
    keep = x[:, 0] != x[:, 1]
    write(folder, "rows_by_condition", [node("Compress", ["x", "keep"], ["y"], axis=0), node("Neg", ["y"], ["z"])],
          {"x": x, "keep": keep}, {"y": T.FLOAT, "z": T.FLOAT})
    flat = draw.uniform(0, 1, 9) > 0.5
    write(folder, "elements_by_condition", [node("Compress", ["x", "keep"], ["y"])], {"x": x, "keep": flat},
          {"y": T.FLOAT})
    write(folder, "different_elements", [node("Unique", ["x"], ["y", "first", "which", "counts"])], {"x": x},
          {"y": T.FLOAT, "first": T.INT64, "which": T.INT64, "counts": T.INT64})
    nodes = [node("Shape", ["x"], ["shape"]), node("ReduceSum", ["k"], ["sum"], keepdims=1),
             node("TopK", ["x", "sum"], ["y", "at"], axis=1)]
    write(folder, "as_many_as_data_say", nodes, {"x": draw.uniform(-1, 1, (3, 4)).astype(np.float32),
                                                "k": np.int64([1, 2])}, {"y": T.FLOAT, "at": T.INT64})


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    decoders(folder)
    loops(folder)
    quantized(folder)
    detections(folder)
