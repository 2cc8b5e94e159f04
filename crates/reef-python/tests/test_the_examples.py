"""Programs of examples/process against a daemon that is this test. Packages that are not installed have stand-ins."""

import importlib.util
import json
import struct
import tempfile
import unittest
from pathlib import Path

import numpy as np
from test_serve import Daemon

EXAMPLES = Path(__file__).resolve().parents[3] / "examples/process"

ONNX_RUNTIME = """
import numpy

__version__ = "0"

class capi:
    class onnxruntime_pybind11_state:
        class InvalidArgument(Exception):
            pass

class SessionOptions:
    pass

class Tensor:
    def __init__(self, name, type, shape):
        self.name, self.type, self.shape = name, type, shape

def get_available_providers():
    return ["CPUExecutionProvider"]

class InferenceSession:
    def __init__(self, path, options, providers):
        assert open(path).read() == "a file"
        self.providers = providers

    def get_providers(self):
        return self.providers

    def get_inputs(self):
        return [Tensor("x", "tensor(float)", ["rows", 2]), Tensor("names", "tensor(string)", ["rows"])]

    def get_outputs(self):
        maps = Tensor("maps", "seq(map(int64,tensor(float)))", [])
        return [maps, Tensor("sums", "tensor(float)", []), Tensor("long", "tensor(string)", [None])]

    def run(self, names, given):
        if (given["x"] < 0).any():
            raise capi.onnxruntime_pybind11_state.InvalidArgument("x: below 0")
        print(names, len(given["x"]))
        long = numpy.array([name + name for name in given["names"]], dtype=object)
        return [{"sums": given["x"].sum(axis=1), "long": long}[name] for name in names]
"""

DECODER = """
class Decoder:
    def __init__(self, sizes, tokens, device):
        print(sizes["layers"], tokens, device)
        self.tokens = tokens

    def read(self, tokens):
        self.is_noise, self.left = len(tokens) > 8, [ord("k"), tokens[0]]
        return self.scores(ord("o"))

    def step(self, token):
        return self.scores(self.left.pop(0) if not self.is_noise else token)

    def scores(self, best):
        return [float(token == best) if not self.is_noise else -100.0 * (token == 256) for token in range(self.tokens)]
"""


def start(folder, program, args=(), **stand_ins):
    """Starts an example with these modules next to it."""
    for name, text in stand_ins.items():
        Path(folder, f"{name}.py").write_text(text)
    return Daemon(folder, (EXAMPLES / program).read_text(), ("model.py", *args))


def ask(daemon, number, tensors, outputs):
    """Sends a request with arrays, or lists of texts."""
    data, inputs = [], []
    for name, value in tensors.items():
        if isinstance(value, list):
            data.append(b"".join(struct.pack("<I", len(text)) + text for text in value))
            kind, shape = "BYTES", [len(value)]
        else:
            data.append(value.astype("<f4").tobytes())
            kind, shape = "FP32", list(value.shape)
        inputs.append({"name": name, "datatype": kind, "shape": shape, "bytes": len(data[-1])})
    head = {"type": "infer", "request": number, "id": "", "class": "be", "timeout_us": 10**7}
    daemon.send({**head, "inputs": inputs, "outputs": outputs}, b"".join(data))


class OnnxRuntime(unittest.TestCase):
    def start(self, folder, *args):
        Path(folder, "model.onnx").write_text("a file")
        return start(folder, "onnxruntime_engine.py", args, onnxruntime=ONNX_RUNTIME)

    def test_tensors_are_those_of_the_file(self):
        with tempfile.TemporaryDirectory() as folder:
            daemon = self.start(folder, "--shape", "sums=-1")
            ready, _ = daemon.receive()
            self.assertTrue(ready["batches"], ready)
            names, x = ({"name": "names", "datatype": "BYTES"}, {"name": "x", "datatype": "FP32"})
            self.assertEqual(ready["inputs"], [{**x, "shape": [-1, 2]}, {**names, "shape": [-1]}])
            sums, long = ({"name": "sums", "datatype": "FP32"}, {"name": "long", "datatype": "BYTES"})
            self.assertEqual(ready["outputs"], [{**sums, "shape": [-1]}, {**long, "shape": [-1]}])
            ask(daemon, 1, {"x": np.array([[1, 2], [3, 4]]), "names": [b"a", "ä".encode()]}, ["long", "sums"])
            answer, data = daemon.receive()
            self.assertEqual(answer["type"], "answer", answer)
            self.assertEqual(data[:14], b"\x02\0\0\0aa\x04\0\0\0" + "ää".encode())
            self.assertEqual(np.frombuffer(data[14:], "<f4").tolist(), [3, 7])
            ask(daemon, 2, {"x": np.ones((1, 2)), "names": [b"\xff"]}, ["long"])
            self.assertIn("input names: must be UTF-8", daemon.receive()[0]["error"])
            code, output = daemon.end()
            self.assertIn("output maps: left out", output)
            self.assertIn("model.onnx by CPUExecutionProvider", output)
            self.assertIn("['long', 'sums'] 2\n", output)
            self.assertEqual(code, 0, output)

    def test_requests_with_the_same_sizes_run_together(self):
        with tempfile.TemporaryDirectory() as folder:
            daemon = self.start(folder, "--shape", "sums=-1")
            daemon.receive()
            daemon.send({"type": "batch", "requests": [1, 2, 3]})
            for number, rows in [(1, 1), (2, 2), (3, 1)]:
                texts = [b"a"] * (3 if number == 3 else rows)  # the last one has no rows
                ask(daemon, number, {"x": np.full((rows, 2), number), "names": texts}, ["sums"])
            said = [daemon.receive() for _ in range(3)]
            self.assertEqual([header["request"] for header, _ in said], [1, 2, 3])
            self.assertEqual([np.frombuffer(data, "<f4").tolist() for _, data in said], [[2], [4, 4], [6]])
            _, output = daemon.end()
            self.assertIn("['sums', 'long'] 3\n['sums'] 1\n", output)

    def test_wrong_request_of_a_batch_fails_alone(self):
        with tempfile.TemporaryDirectory() as folder:
            daemon = self.start(folder, "--shape", "sums=-1")
            daemon.receive()
            daemon.send({"type": "batch", "requests": [1, 2]})
            for number, value in [(1, -1), (2, 1)]:
                ask(daemon, number, {"x": np.full((1, 2), value), "names": [b"a"]}, ["sums"])
            wrong = {"type": "error", "request": 1, "error": "x: below 0", "kind": "invalid"}
            self.assertEqual(daemon.receive()[0], wrong)
            self.assertEqual(np.frombuffer(daemon.receive()[1], "<f4").tolist(), [2])
            daemon.end()

    def test_shape_of_an_unknown_tensor_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            daemon = self.start(folder, "--shape", "none=1")
            self.assertIn("--shape: must be of a tensor of the file, got none", daemon.receive()[0]["error"])
            daemon.end()

    @unittest.skipIf(importlib.util.find_spec("onnxruntime") is None, "onnxruntime is not installed")
    def test_file_runs_by_onnx_runtime_itself(self):
        from onnx import TensorProto, helper

        def value(name, kind):
            return helper.make_tensor_value_info(name, kind, ["rows", 2] if kind == TensorProto.FLOAT else ["rows"])

        given = [value("x", TensorProto.FLOAT), value("names", TensorProto.STRING)]
        made = [value("y", TensorProto.FLOAT), value("same", TensorProto.STRING)]
        nodes = [helper.make_node("Neg", ["x"], ["y"]), helper.make_node("Identity", ["names"], ["same"])]
        model = helper.make_model(
            helper.make_graph(nodes, "file", given, made), opset_imports=[helper.make_opsetid("", 13)], ir_version=8
        )
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "model.onnx").write_bytes(model.SerializeToString())
            daemon = start(folder, "onnxruntime_engine.py")
            ready, _ = daemon.receive()
            self.assertEqual([one["shape"] for one in ready["inputs"]], [[-1, 2], [-1]], ready)
            daemon.send({"type": "batch", "requests": [1, 2]})
            for number in (1, 2):
                ask(daemon, number, {"x": np.full((1, 2), number), "names": [b"b"]}, ["y", "same"])
            for number in (1, 2):
                _, data = daemon.receive()
                self.assertEqual(np.frombuffer(data[:8], "<f4").tolist(), [-number] * 2)
                self.assertEqual(data[8:], b"\x01\0\0\0b")
            ask(daemon, 3, {"x": np.ones((1, 3)), "names": [b"b"]}, ["y"])
            self.assertEqual(daemon.receive()[0]["kind"], "invalid")
            self.assertEqual(daemon.end()[0], 0)


class Transformers(unittest.TestCase):
    def start(self, folder, **stand_ins):
        text = (EXAMPLES / "byte_text.py").read_text()
        return start(folder, "transformers_chat.py", ["--tiny"], byte_text=text, **stand_ins)

    def test_text_is_that_of_the_decoder(self):
        with tempfile.TemporaryDirectory() as folder:
            daemon = self.start(folder, static_decoder=DECODER)
            self.assertEqual(daemon.receive()[0]["text"], {"parameters": ["seed", "temperature", "top_p"]})
            parts, _ = daemon.ask_text(1, {"prompt": "a"})
            self.assertEqual(parts, [("o", "", (2, 1)), ("k", "", (2, 2)), ("", "stop", (2, 2))])
            noise = {"messages": [{"role": "user", "content": "a"}], "temperature": 1.0, "max_tokens": 20}
            first, again, other = (
                [text for text, _, _ in daemon.ask_text(2, {**noise, "seed": seed})[0]] for seed in (1, 1, 2)
            )
            self.assertEqual((len(first), first == again, first == other), (20, True, False))
            parts, last = daemon.ask_text(3, {"prompt": "a" * 200})
            self.assertEqual((parts, last["error"]), ([], "prompt: must have at most 128 tokens, got 201"))
            self.assertEqual(daemon.end(), (0, "2 257 cpu:0\n"))

    def test_top_p_keeps_the_best_token(self):
        with tempfile.TemporaryDirectory() as folder:
            daemon = self.start(folder, static_decoder=DECODER)
            daemon.receive()
            for seed in range(8):
                parts, _ = daemon.ask_text(1, {"prompt": "a", "temperature": 2.0, "top_p": 0.001, "seed": seed})
                self.assertEqual("".join(text for text, _, _ in parts), "ok")
            daemon.end()

    @unittest.skipIf(importlib.util.find_spec("transformers") is None, "transformers is not installed")
    def test_text_is_that_of_the_model_itself(self):
        with tempfile.TemporaryDirectory() as folder:
            daemon = self.start(folder, static_decoder=(EXAMPLES / "static_decoder.py").read_text())
            daemon.socket.settimeout(300)
            ready, _ = daemon.receive()
            self.assertEqual(ready["type"], "ready", ready)
            texts = [json.dumps(daemon.ask_text(1, {"prompt": "a", "max_tokens": 8})[0]) for _ in range(2)]
            self.assertEqual(texts[0], texts[1], "what an earlier text has left in the cache is not seen")
            self.assertEqual(daemon.end()[0], 0)


if __name__ == "__main__":
    unittest.main()
