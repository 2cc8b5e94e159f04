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
ML = "ai.onnx.ml"
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
    is_tensor = lambda v: isinstance(v, onnx.TensorProto)
    stored = [v if is_tensor(v) else numpy_helper.from_array(np.asarray(v), k) for k, v in dict(constants).items()]
    graph = helper.make_graph(nodes, name, given, made, stored)
    sets = [helper.make_opsetid("", opset), helper.make_opsetid(MS, 1)]
    sets += [helper.make_opsetid(ML, 1)] * any(n.domain == ML for n in nodes)
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


def sampled(folder):
    """Elements between others: grids, regions, offsets of taps."""
    draw = random("sampled")
    f = lambda *shape: draw.uniform(-1, 1, shape).astype(np.float32)
    of = {"x": f(1, 2, 4, 5), "grid": 1.6 * f(1, 2, 3, 2)}
    for mode, padding, corners_ in (("linear", "zeros", 0), ("linear", "reflection", 1), ("nearest", "border", 0),
                                    ("cubic", "reflection", 0), ("cubic", "border", 1)):
        grid = node("GridSample", ["x", "grid"], ["y"], mode=mode, padding_mode=padding, align_corners=corners_)
        write(folder, f"grid_{mode}_{padding}", [grid], of, {"y": T.FLOAT}, opset=20)
    of = {"x": f(1, 2, 3, 3, 2), "grid": 1.3 * f(1, 2, 1, 2, 3)}
    write(folder, "grid_of_volume", [node("GridSample", ["x", "grid"], ["y"])], of, {"y": T.FLOAT}, opset=20)
    turned = [node("AffineGrid", ["matrix", "sizes"], ["grid"]), node("GridSample", ["x", "grid"], ["y"])]
    write(folder, "grid_of_matrix", turned, {"x": f(1, 2, 5, 5), "matrix": f(1, 2, 3)}, {"y": T.FLOAT},
          {"sizes": np.int64([1, 2, 3, 4])}, opset=20)
    regions = np.float32([[0, 0, 5, 6], [2.2, 1.1, 7.7, 4.3], [-3, -2, 4, 5], [5, 4, 5.3, 4.1], [1, 1, 20, 20]])
    of = {"x": f(2, 2, 7, 8), "regions": regions, "batch": np.int64([0, 1, 0, 1, 1])}
    for samples, mode, opset in ((2, "avg", 16), (0, "avg", 16), (0, "avg", 10), (2, "max", 16), (1, "avg", 10)):
        align = node("RoiAlign", ["x", "regions", "batch"], ["y"], mode=mode, output_height=3, output_width=2,
                     sampling_ratio=samples, spatial_scale=0.9)
        write(folder, f"regions_{mode}_{samples}_{opset}", [align], of, {"y": T.FLOAT}, opset=opset)
    deformed = node("DeformConv", ["x", "w", "offsets", "bias", "mask"], ["y"], pads=[1, 0, 1, 1], strides=[2, 1],
                    group=2, offset_group=2)
    write(folder, "convolution_of_offsets", [deformed],
          {"x": f(1, 4, 5, 4), "offsets": 2 * f(1, 24, 3, 4), "mask": f(1, 12, 3, 4)}, {"y": T.FLOAT},
          {"w": f(2, 2, 3, 2), "bias": f(2)}, opset=19)
    pooled = node("MaxPool", ["x"], ["most", "places"], kernel_shape=[2, 2], strides=[2, 2])
    back = node("MaxUnpool", ["most", "places", "sizes"], ["y"], kernel_shape=[2, 2], strides=[2, 2])
    write(folder, "unpooled", [pooled, back], {"x": f(1, 2, 5, 4)}, {"y": T.FLOAT}, {"sizes": np.int64([1, 2, 5, 4])})
    image = node("Col2Im", ["x", "image", "window"], ["y"], pads=[1, 0, 1, 2], strides=[2, 1], dilations=[1, 2])
    write(folder, "image_of_columns", [image], {"x": f(1, 12, 12)}, {"y": T.FLOAT},
          {"image": np.int64([5, 6]), "window": np.int64([2, 3])}, opset=18)


def signals(folder):
    draw = random("signals")
    x = draw.uniform(-1, 1, (1, 3, 10, 1)).astype(np.float32)
    for name, given, more, opset in (
            ("half", x, {"onesided": 1}, 20), ("longer", x, {"onesided": 1}, 20),
            ("inverse", np.concatenate([x, x[:, ::-1]], -1), {"inverse": 1}, 20),
            ("from_half", np.concatenate([x, x[:, ::-1]], -1), {"inverse": 1, "onesided": 1}, 20),
            ("older", x, {"axis": 2}, 17)):
        names = ["x", "length" if name == "longer" else "", "axis"] if opset == 20 else ["x"]
        constants = {"length": np.int64(13), "axis": np.int64(2)} if opset == 20 else {}
        write(folder, f"transform_{name}", [node("DFT", names, ["y"], **more)], {"x": given}, {"y": T.FLOAT}, constants,
              opset=opset)
    # As a speech network's front end: frames, power, bands.
    frames = [node("HannWindow", ["length"], ["window"]), node("STFT", ["x", "step", "window"], ["s"]),
              node("Mul", ["s", "s"], ["q"]), node("ReduceSum", ["q", "last"], ["power"], keepdims=0),
              node("MelWeightMatrix", ["bands", "length", "rate", "low", "high"], ["mel"]),
              node("MatMul", ["power", "mel"], ["y"])]
    write(folder, "bands_of_frames", frames, {"x": draw.uniform(-1, 1, (1, 100, 1)).astype(np.float32)}, {"y": T.FLOAT},
          {"length": np.int64(32), "step": np.int64(16), "last": np.int64([-1]), "bands": np.int64(6),
           "rate": np.int64(8000), "low": np.float32(20), "high": np.float32(4000)}, opset=17)


def vectors(folder):
    """Support vector machines, as scikit-learn's converter writes them."""
    draw = random("vectors")
    f = lambda *shape: draw.uniform(-1, 1, shape).astype(np.float32)
    for kernel, classes, probability in (("RBF", 2, False), ("RBF", 3, True), ("POLY", 4, False), ("LINEAR", 2, True),
                                         ("SIGMOID", 3, False)):
        count, pairs = 3 * classes, classes * (classes - 1) // 2
        more = {"prob_a": (-2 - f(pairs)).tolist(), "prob_b": f(pairs).tolist()} if probability else {}
        machine = node("SVMClassifier", ["x"], ["label", "scores"], domain=ML, kernel_type=kernel,
                       kernel_params=[0.4, 0.3, 3.0], support_vectors=f(4 * count).tolist(),
                       vectors_per_class=[3] * classes, coefficients=f((classes - 1) * count).tolist(),
                       rho=f(pairs).tolist(), classlabels_ints=list(range(10, 10 + classes)), **more)
        write(folder, f"classes_{kernel.lower()}_{classes}", [machine], {"x": 2 * f(6, 4)},
              {"label": T.INT64, "scores": T.FLOAT})
    for name, more in {"vectors": {}, "one_class": {"one_class": 1}}.items():
        machine = node("SVMRegressor", ["x"], ["y"], domain=ML, kernel_type="RBF", kernel_params=[0.4, 0.3, 2.0],
                       support_vectors=f(20).tolist(), n_supports=5, coefficients=f(5).tolist(), rho=[0.1], **more)
        write(folder, f"regression_{name}", [machine], {"x": f(6, 4)}, {"y": T.FLOAT})


def few_bits(folder):
    draw = random("few_bits")
    f = lambda *shape: draw.uniform(-1, 1, shape).astype(np.float32)
    x, w = f(2, 8), f(8, 3)
    for name, type_ in (("e4m3fn", T.FLOAT8E4M3FN), ("e4m3fnuz", T.FLOAT8E4M3FNUZ), ("e5m2", T.FLOAT8E5M2),
                        ("e5m2fnuz", T.FLOAT8E5M2FNUZ)):
        weights = helper.make_tensor("w", type_, w.shape, w.flatten().tolist())
        zero = helper.make_tensor("zero", type_, [], [0.0])
        nodes = [node("DequantizeLinear", ["w", "scale"], ["wf"]), node("QuantizeLinear", ["x", "scale", "zero"], ["q"]),
                 node("Reshape", ["q", "same"], ["r"]), node("DequantizeLinear", ["r", "scale"], ["xf"]),
                 node("MatMul", ["xf", "wf"], ["y"])]
        write(folder, f"weights_{name}", nodes, {"x": x}, {"y": T.FLOAT},
              {"w": weights, "zero": zero, "scale": np.float32(0.02), "same": np.int64([2, -1])})
        far = np.float32([1e30, -500, 460, 0.3, -1e-9, 7e4, -0.002])
        for saturates in (0, 1) if name == "e5m2" else (1,):
            nodes = [node("Cast", ["x"], ["q"], to=type_, saturate=saturates), node("Cast", ["q"], ["c"], to=T.FLOAT),
                     node("Min", ["c", "big"], ["y"])]
            write(folder, f"cast_{name}_{saturates}", nodes, {"x": far}, {"y": T.FLOAT}, {"big": np.float32(1e9)})
    numbers, zeros = draw.integers(0, 16, (9, 32)), draw.integers(0, 16, (9, 2))
    packed = lambda of: (of[:, 0::2] | of[:, 1::2] << 4).astype(np.uint8)
    scales, places = np.abs(f(9, 2)), np.int64([[3, 0], [8, 3]])
    four = lambda name, of: helper.make_tensor(name, T.INT4, of.shape, (of - 8).flatten().tolist())
    for name, table, zero in (("packed", packed(numbers), packed(zeros)), ("four_bits", four("t", numbers), four("z", zeros)),
                              ("bytes", numbers.astype(np.uint8), zeros.astype(np.uint8))):
        rows = node("GatherBlockQuantized", ["t", "places", "scales", "z"], ["y"], domain=MS, block_size=16,
                    gather_axis=0, quantize_axis=1, bits=8 if name == "bytes" else 4)
        write(folder, f"rows_of_{name}", [rows], {"places": places}, {"y": T.FLOAT}, {"t": table, "z": zero, "scales": scales})


def detectors(folder):
    """Heads behind `NonMaxSuppression`, whose numbers of rows are computed with."""
    draw = random("detectors")
    f = lambda *shape: draw.uniform(-1, 1, shape).astype(np.float32)
    ints = lambda *list_: np.int64(list_)
    boxes, scores = corners(draw, 1, 10), draw.uniform(0, 1, (1, 3, 10)).astype(np.float32)
    of = {"most": np.int64(5), "overlap": np.float32(0.3), "least": np.float32(0.35), "two": np.int64(2),
          "zero": np.int64(0), "i0": ints(0), "i1": ints(1), "i01": ints(0, 1)}
    chosen = node("NonMaxSuppression", ["boxes", "scores", "most", "overlap", "least"], ["chosen"])
    rows = [chosen, node("Gather", ["chosen", "two"], ["box"], axis=1), node("Squeeze", ["boxes", "i0"], ["flat"]),
            node("Gather", ["flat", "box"], ["found"])]
    # YOLO's end: one row of a table each, places broadcast to each other's shapes.
    raw = np.concatenate([corners(draw, 2, 8), draw.uniform(0, 1, (2, 8, 3)).astype(np.float32)], -1)
    end = [
        node("Slice", ["raw", "i0", "i4", "i2"], ["boxes"]), node("Slice", ["raw", "i4", "many", "i2"], ["classes"]),
        node("ArgMax", ["classes"], ["class"], axis=2), node("ReduceMax", ["classes", "i2"], ["best"]),
        node("Cast", ["class"], ["number"], to=T.FLOAT), node("Mul", ["number", "far"], ["off"]),
        node("Add", ["boxes", "off"], ["apart"]), node("Transpose", ["best"], ["scores"], perm=[0, 2, 1]),
        node("NonMaxSuppression", ["apart", "scores", "most", "overlap", "least"], ["chosen"]),
        node("Gather", ["chosen", "zero"], ["batch"], axis=1), node("Gather", ["chosen", "two"], ["box"], axis=1),
        node("Shape", ["batch"], ["s0"]), node("Shape", ["box"], ["s1"]), node("Max", ["s0", "s1"], ["s"]),
        node("Expand", ["batch", "s"], ["batch1"]), node("Expand", ["box", "s"], ["box1"]),
        node("Unsqueeze", ["batch1", "i1"], ["batch2"]), node("Unsqueeze", ["box1", "i1"], ["box2"]),
        node("Concat", ["batch2", "box2"], ["places"], axis=-1), node("GatherND", ["boxes", "places"], ["b"]),
        node("GatherND", ["number", "places"], ["n"]), node("GatherND", ["best", "places"], ["c"]),
        node("Concat", ["b", "n", "c"], ["y"], axis=1)]
    write(folder, "head_of_tuples", end, {"raw": raw}, {"y": T.FLOAT},
          of | {"i4": ints(4), "i2": ints(2), "many": ints(1 << 31), "far": np.float32(100)}, opset=18)
    # The best four of what is left, or fewer.
    best = [chosen, node("GatherND", ["scores", "chosen"], ["s"]), node("Shape", ["s"], ["n"]), node("Min", ["n", "four"], ["k"]),
            node("TopK", ["s", "k"], ["v", "at"], axis=0), node("Gather", ["chosen", "at"], ["y"], axis=0)]
    for name, least in (("some", 0.35), ("few", 0.93), ("none", 2)):
        write(folder, f"best_of_{name}", best, {"boxes": boxes, "scores": scores}, {"v": T.FLOAT, "y": T.INT64},
              of | {"four": ints(4), "least": np.float32(least)}, opset=17)
    # torchvision's `batched_nms` behind a threshold.
    batched = [
        node("Greater", ["s", "least"], ["is"]), node("NonZero", ["is"], ["nz"]), node("Squeeze", ["nz", "i0"], ["keep"]),
        node("Gather", ["b", "keep"], ["b1"]), node("Gather", ["s", "keep"], ["s1"]), node("Gather", ["l", "keep"], ["l1"]),
        node("ReduceMax", ["b1"], ["far"], keepdims=0), node("Cast", ["l1"], ["l2"], to=T.FLOAT), node("Mul", ["l2", "far"], ["off"]),
        node("Unsqueeze", ["off", "i1"], ["off1"]), node("Add", ["b1", "off1"], ["b2"]), node("Unsqueeze", ["b2", "i0"], ["boxes"]),
        node("Unsqueeze", ["s1", "i01"], ["scores"]), chosen, node("Gather", ["chosen", "two"], ["box"], axis=1),
        node("Slice", ["box", "i0", "i3"], ["top"]), node("Gather", ["b1", "top"], ["y"]), node("Gather", ["l1", "top"], ["label"])]
    write(folder, "boxes_by_class", batched, {"b": corners(draw, 10), "s": scores[0, 0], "l": draw.integers(0, 3, 10)},
          {"y": T.FLOAT, "label": T.INT64}, of | {"i3": ints(3)}, opset=17)
    # A second stage: regions of a map, each with scores, and as many in a tensor of fixed size.
    align = node("RoiAlign", ["map", "found", "batch"], ["r"], output_height=2, output_width=2, sampling_ratio=2)
    head = [*rows, node("Shape", ["found"], ["s"]), node("Slice", ["s", "i0", "i1"], ["n"]),
            node("ConstantOfShape", ["n"], ["batch"], value=helper.make_tensor("v", T.INT64, [1], [0])), align,
            node("Flatten", ["r"], ["flat1"]), node("Gemm", ["flat1", "w", "bias"], ["logits"], transB=1),
            node("Softmax", ["logits"], ["y"], axis=-1), node("Reshape", ["logits", "all"], ["z"]),
            node("ReduceMean", ["r", "i0"], ["mean"], keepdims=0), node("Sub", ["ten", "n"], ["more"]),
            node("Concat", ["i00", "more", "i0"], ["pads"], axis=0), node("Pad", ["found", "pads"], ["fixed"])]
    write(folder, "second_stage", head, {"boxes": boxes, "scores": scores, "map": f(1, 2, 5, 5)},
          {"y": T.FLOAT, "z": T.FLOAT, "mean": T.FLOAT, "fixed": T.FLOAT},
          of | {"w": f(3, 8), "bias": f(3), "all": ints(-1), "ten": ints(12), "i00": ints(0, 0)}, opset=18)
    # Regions of two maps by their sizes, put back in order.
    def level(k):
        return [node("Equal", ["level", f"k{k}"], [f"is{k}"]), node("NonZero", [f"is{k}"], [f"nz{k}"]),
                node("Squeeze", [f"nz{k}", "i0"], [f"at{k}"]), node("Gather", ["found", f"at{k}"], [f"b{k}"]),
                node("Shape", [f"b{k}"], [f"s{k}"]), node("Slice", [f"s{k}", "i0", "i1"], [f"n{k}"]),
                node("ConstantOfShape", [f"n{k}"], [f"batch{k}"], value=helper.make_tensor("v", T.INT64, [1], [0])),
                node("RoiAlign", [f"map{k}", f"b{k}", f"batch{k}"], [f"r{k}"], output_height=2, output_width=2, sampling_ratio=1),
                node("Reshape", [f"at{k}", "column"], [f"c{k}"]), node("Shape", [f"r{k}"], [f"rs{k}"]),
                node("Expand", [f"c{k}", f"rs{k}"], [f"places{k}"])]
    levels = [*rows, node("ReduceMax", ["found", "i1"], ["side"], keepdims=0), node("Greater", ["side", "long"], ["is"]),
              node("Cast", ["is"], ["level"], to=T.INT64), *level(0), *level(1), node("Shape", ["level"], ["ls"]),
              node("Concat", ["ls", "rest"], ["sizes"], axis=0), node("ConstantOfShape", ["sizes"], ["empty"]),
              node("ScatterElements", ["empty", "places0", "r0"], ["half"], axis=0),
              node("ScatterElements", ["half", "places1", "r1"], ["y"], axis=0), node("Concat", ["r0", "r1"], ["z"], axis=0)]
    write(folder, "regions_of_levels", levels, {"boxes": boxes, "scores": scores, "map0": f(1, 2, 5, 5), "map1": f(1, 2, 3, 3)},
          {"y": T.FLOAT, "z": T.FLOAT},
          of | {"k0": np.int64(0), "k1": np.int64(1), "long": np.float32(3.2), "column": ints(-1, 1, 1, 1), "rest": ints(2, 2, 2)},
          opset=18)
    x = np.round(1.6 * f(3, 4)).astype(np.float32)
    updates = [node("NonZero", ["x"], ["nz"]), node("Transpose", ["nz"], ["at"]), node("GatherND", ["x", "at"], ["v"]),
               node("ScatterND", ["base", "at", "v"], ["y"], reduction="add"), node("Size", ["v"], ["count"]),
               node("Shape", ["v"], ["n"]), node("Gather", ["n", "zero"], ["n0"]), node("Range", ["zero", "n0", "one"], ["places"]),
               node("Gather", ["v", "last"], ["end"], axis=0)]
    updates += [node(f"Reduce{op}", ["v"], [op.lower()], keepdims=0) for op in ("Sum", "Prod", "Min", "L2")]
    outputs = {"y": T.FLOAT, "count": T.INT64, "places": T.INT64, "end": T.FLOAT} | dict.fromkeys(("sum", "prod", "min", "l2"), T.FLOAT)
    write(folder, "updates_of_rows", updates, {"x": x}, outputs,
          {"base": f(3, 4), "zero": np.int64(0), "one": np.int64(1), "last": np.int64(-1)}, opset=18)


def experts(folder):
    """Mixtures of experts, whose weights are floats or have few bits."""
    draw = random("experts")
    f = lambda *shape: draw.uniform(-1, 1, shape).astype(np.float32)
    bytes_ = lambda *shape: draw.integers(0, 256, shape).astype(np.uint8)
    x, router = f(2, 3, 8), f(6, 4)
    of = {"w1": f(4, 6, 8), "b1": f(4, 6), "w2": f(4, 8, 6), "b2": f(4, 8)}
    mixed = node("MoE", ["x", "router", *of], ["y"], domain=MS, k=2, activation_type="gelu")
    write(folder, "experts_by_shares", [mixed], {"x": x, "router": router}, {"y": T.FLOAT}, of)
    of = {"w1": f(4, 12, 8), "b1": f(4, 12), "w2": f(4, 8, 6), "b2": f(4, 8)}
    gated = node("MoE", ["x", "router", *of], ["y"], domain=MS, k=3, activation_type="swiglu", swiglu_fusion=1, swiglu_limit=0.7,
                 activation_alpha=1.7, activation_beta=1.0, normalize_routing_weights=1)
    write(folder, "experts_with_gates", [gated], {"x": x, "router": router}, {"y": T.FLOAT}, of)
    x, router, names = f(3, 32), f(3, 4), ["w1", "s1", "", "w2", "s2", "", "", "", "", "z1", "z2"]
    for bits, block, rows in ((4, 16, 2), (2, 0, 1)):
        scales = lambda *shape: np.abs(f(*shape, *[2] * (block > 0))) * 0.1
        zeros = lambda n: bytes_(4, n, 1) if block else bytes_(4, n * bits // 8)
        of = {"w1": bytes_(4, 16, 4 * bits), "s1": scales(4, 16), "w2": bytes_(4, 32, 2 * bits), "s2": scales(4, 32)}
        of |= {"z1": zeros(16), "z2": zeros(32)}
        if block:
            of["s2"] = of["s2"][:, :, :1]
        few = node("QMoE", ["x", "router", *names], ["y"], domain=MS, k=2, activation_type="silu", expert_weight_bits=bits,
                   normalize_routing_weights=1, **({"block_size": block} if block else {}))
        write(folder, f"experts_of_{bits}_bits", [few], {"x": x, "router": router}, {"y": T.FLOAT}, of)


def recurrences(folder):
    """Operators of ONNX's newest set in the domain where ONNX Runtime had them first."""
    draw = random("recurrences")
    f = lambda *shape: draw.uniform(-1, 1, shape).astype(np.float32)
    state = node("LinearAttention", ["q", "k", "v", "before"], ["y", "after"], domain=MS, q_num_heads=2, kv_num_heads=2,
                 update_rule="linear")
    given = {"q": f(1, 3, 8), "k": f(1, 3, 8), "v": f(1, 3, 8), "before": f(1, 2, 4, 4)}
    write(folder, "linear_attention", [state], given, {"y": T.FLOAT, "after": T.FLOAT})
    causal = node("CausalConvWithState", ["x", "w", "bias", "before"], ["y", "after"], domain=MS, activation="silu")
    write(folder, "convolution_of_the_past", [causal], {"x": f(1, 4, 5), "before": f(1, 4, 2)},
          {"y": T.FLOAT, "after": T.FLOAT}, {"w": f(4, 1, 3), "bias": f(4)})


def older(folder):
    """What files of other frameworks had in the first versions of ONNX's set, and matrices that cameras have."""
    draw = random("older")
    f = lambda *shape: draw.uniform(-1, 1, shape).astype(np.float32)
    x = {"x": f(2, 3, 4, 5)}
    functions = [node("ImageScaler", ["x"], ["a"], bias=[0.1, 0.2, 0.3], scale=0.5), node("Affine", ["a"], ["b"], alpha=2.0, beta=0.5),
                 node("ScaledTanh", ["b"], ["c"], alpha=1.7, beta=0.6), node("Scale", ["c"], ["y"], scale=3.0)]
    write(folder, "functions_of_old_files", functions, x, {"y": T.FLOAT}, opset=8)
    cut = [node("Crop", ["x"], ["y"], border=[1, 0, 2, 1]), node("Crop", ["x"], ["z"], border=[1, 2, 0, 0], scale=[2, 3])]
    write(folder, "borders_of_old_files", cut, x, {"y": T.FLOAT, "z": T.FLOAT}, opset=8)
    means = [node("MeanVarianceNormalization", ["x"], [f"y{k}"], across_channels=k // 2, normalize_variance=k % 2) for k in range(4)]
    write(folder, "means_of_old_files", means, x, {f"y{k}": T.FLOAT for k in range(4)}, opset=8)
    each = {k: np.abs(f(3, 4, 5)) for k in ("scale", "shift", "mean", "variance")}
    write(folder, "statistics_of_each_element", [node("BatchNormalization", ["x", *each], ["y"], spatial=0)], x, {"y": T.FLOAT},
          each, opset=7)
    for opset in (8, 11):
        write(folder, f"mask_of_set_{opset}", [node("Dropout", ["x"], ["y", "mask"])], x,
              {"y": T.FLOAT, "mask": T.FLOAT if opset < 10 else T.BOOL}, opset=opset)
    for rows in (2, 4):
        write(folder, f"inverse_of_{rows}_rows", [node("Inverse", ["x"], ["y"], domain=MS)],
              {"x": f(2, rows, rows) + 2 * np.eye(rows, dtype=np.float32)}, {"y": T.FLOAT})
    words = {"x": draw.integers(-99, 99, (2, 3)).astype(np.int32), "z": draw.integers(-99, 99, (3, 2)).astype(np.int32)}
    product = [node("Cast", ["x"], ["a"], to=T.INT16), node("Cast", ["z"], ["b"], to=T.INT16),
               node("MatMulInteger16", ["a", "b"], ["y"], domain=MS)]
    write(folder, "product_of_words", product, words, {"y": T.INT32})
    crossed = node("MultiHeadAttention", ["q", "k", "v", "bias"], ["y"], domain=MS, num_heads=2)
    write(folder, "queries_for_heads", [crossed], {"q": f(1, 3, 8), "k": f(1, 2, 4, 4), "v": f(1, 2, 4, 4)}, {"y": T.FLOAT},
          {"bias": f(24)})


def sequences(folder):
    """Lists of tensors and optional ones, as scripted modules have them."""
    draw = random("sequences")
    f = lambda *shape: draw.uniform(-1, 1, shape).astype(np.float32)
    of = {"three": np.int64(3), "one": np.int64(1), "last": np.int64(-1), "zero": np.int64(0)}
    parts = [node("SplitToSequence", ["x", "three"], ["s"], axis=1), node("SequenceAt", ["s", "last"], ["b"]),
             node("SequenceLength", ["s"], ["count"]), node("SequenceInsert", ["s", "b", "one"], ["s2"]),
             node("SequenceErase", ["s2", "zero"], ["s3"]), node("ConcatFromSequence", ["s3"], ["y"], axis=1)]
    write(folder, "sequence_of_parts", parts, {"x": f(2, 7)}, {"y": T.FLOAT, "count": T.INT64}, of, opset=18)
    stacked = [node("SequenceEmpty", [], ["e"]), node("SequenceInsert", ["e", "x"], ["s"]),
               node("SequenceInsert", ["s", "z", "last"], ["s2"]), node("ConcatFromSequence", ["s2"], ["y"], axis=0, new_axis=1),
               node("OptionalHasElement", ["x"], ["is"]), node("Det", ["y"], ["det"])]
    write(folder, "sequence_stacked", stacked, {"x": f(2, 2), "z": f(2, 2)}, {"y": T.FLOAT, "is": T.BOOL, "det": T.FLOAT}, of,
          opset=18)


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    decoders(folder)
    loops(folder)
    quantized(folder)
    detections(folder)
    for more in (sampled, signals, vectors, few_bits, detectors, experts, recurrences, older, sequences):
        more(folder)
