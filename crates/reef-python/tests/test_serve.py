"""Models as programs: `reef.serve` against a daemon that is this test."""

import contextlib
import io
import json
import os
import socket
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import numpy as np
from reef.serve import _phase
from reef.serve._run import _forget_frames
from reef.serve._tensors import Spec

DRIVER = os.environ.get("REEF_TEST_FAKE_DRIVER")

MODEL = """
import threading
import reef.serve

def wait(request):
    while not request.is_cancelled:
        pass

class Rows(reef.serve.Model):
    inputs = {"x": ("FP32", [-1, 2]), "names": ("BYTES", [-1]), "times": int}
    outputs = {"sums": ("FP32", [-1]), "names": ("BYTES", [-1]), "is_done": bool}

    def load(self, device):
        import sys
        assert "reef._reef" not in sys.modules, "the compiled part is not needed"

    def infer(self, request):
        if request.id == "wait":
            wait(request)
            raise reef.serve.InvalidRequest("cancelled")
        if request.id == "wait in a thread":
            thread = threading.Thread(target=wait, args=[request])
            thread.start()
            thread.join()
            raise reef.serve.InvalidRequest("cancelled")
        if request.id == "left":
            threading.Thread(target=wait, args=[request], daemon=True).start()
        if request.id == "long":
            raise reef.serve.InvalidRequest("\\udc80" + "a" * (2 << 20))
        names = [name * request["times"] for name in request["names"]]
        if request.id == "threads":
            names = [thread.name for thread in threading.enumerate()]
        return {"sums": request["x"].sum(axis=1), "names": names, "is_done": True}

reef.serve.run(Rows)
"""


BATCHES = """
import reef.serve

class Batches(reef.serve.Model):
    inputs = {"x": ("FP32", [-1, 2]), "names": ("BYTES", [-1]), "times": int}
    outputs = {"sums": ("FP32", [-1]), "names": ("BYTES", [-1]), "is_done": bool}

    def infer_batch(self, requests):
        if requests[0].id == "none":
            return []
        while requests[0].id == "wait" and not requests[1].is_cancelled:
            pass
        answer = {"sums": [float(len(requests))], "names": [], "is_done": True}
        return [reef.serve.InvalidRequest("no") if request.id == "wrong" else answer for request in requests]

reef.serve.run(Batches)
"""


TEXT = """
import reef.serve

class Words(reef.serve.TextModel):
    parameters = ["seed"]
    max_tokens = 5

    def chat_prompt(self, messages):
        return " ".join(message["content"] for message in messages)

    def generate(self, request):
        request.prompt_tokens = len(request.prompt.split())
        try:
            for word in request.prompt.split():
                if word == "raise":
                    raise reef.serve.InvalidRequest("no such word")
                if word == "long":
                    yield reef.serve.Piece("l o n g", tokens=4)
                elif word == "bytes":
                    yield from [b"\\xc3", b"\\xa4", b"\\xc3"]
                else:
                    yield word * (request.seed or 1)
        finally:
            print("closed", flush=True)

reef.serve.run(Words)
"""


# For Triton's Python backend. The command of the daemon is `python3 -m reef.serve.triton`.
TRITON = """
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        error = lambda request: pb_utils.TritonError("no", getattr(pb_utils.TritonError, request.request_id()))
        return [pb_utils.InferenceResponse(error=error(request)) for request in requests]
"""


# The memory of the driver for tests is the host's.
PLACES = """
import ctypes, json
import reef.serve

def fail(x):
    raise ValueError("no")

class Places(reef.serve.Model):
    device_memory = True
    inputs = {"x": ("FP32", [-1, 2])}
    outputs = {"said": str}

    def infer(self, request):
        x = request["x"]
        if request.id == "close again":
            driver = ctypes.CDLL("libcuda.so.1")
            return {"said": json.dumps(driver.cuIpcCloseMemHandle(ctypes.c_uint64(self.opened)))}
        place = x.__cuda_array_interface__
        self.opened = x.address - 8
        if request.id == "raise":
            raise ValueError("no")
        if request.id == "raise another":
            try:
                fail(x)
            except ValueError as error:
                raise RuntimeError("another") from error
        numbers = (ctypes.c_float * 6).from_address(x.address)
        return {"said": json.dumps([place, x.address, x.datatype, list(numbers)])}

reef.serve.run(Places)
"""


# The other thread has the interpreter while it opens a library, as an import of a compiled module has.
OPENS = """
import ctypes, sys, threading
from reef.serve import _phase

sys.setswitchinterval(1e-4)
system, name = ctypes.PyDLL(None), sys.argv[1].encode()
system.dlopen.restype, system.dlclose.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
is_over = threading.Event()

def open_and_close():
    while not is_over.is_set():
        system.dlclose(system.dlopen(name, 2))

other = threading.Thread(target=open_and_close, daemon=True)
other.start()
for _ in range(200):
    with _phase.Phases().of("rt"):
        pass
is_over.set()
other.join()
"""


class Daemon:
    """A process of a model, and the daemon's end of its socket."""

    def __init__(self, folder, text=MODEL, args=("model.py",), env=None, **more):
        Path(folder, "model.py").write_text(text)
        self.socket, theirs = socket.socketpair()
        self.socket.settimeout(60)
        command = [sys.executable, *args]
        pipes = {"stdin": theirs, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        self.process = subprocess.Popen(command, cwd=folder, env=env, **pipes)
        theirs.close()
        facts = {"model": "m", "version": 1, "class": "be", "instance": 0, "device": "cpu:0"}
        self.send({"type": "start", "protocol": 1, "folder": str(folder), **facts, **more})

    def send(self, header, data=b""):
        text = json.dumps(header).encode()
        self.socket.sendall(struct.pack("<IQ", len(text), len(data)) + text + data)

    def receive(self):
        header, data = struct.unpack("<IQ", self._exactly(12))
        return json.loads(self._exactly(header)), self._exactly(data)

    def _exactly(self, length):
        data = b""
        while len(data) < length:
            more = self.socket.recv(length - len(data))
            assert more, self.process.communicate(timeout=60)
            data += more
        return data

    def infer(self, number, id, x, names):
        data = [x.astype("<f4").tobytes(), b"".join(struct.pack("<I", len(n)) + n for n in names), struct.pack("<q", 2)]
        tensors = [("x", "FP32", list(x.shape)), ("names", "BYTES", [len(names)]), ("times", "INT64", [1])]
        inputs = [
            {"name": name, "datatype": datatype, "shape": shape, "bytes": len(part)}
            for (name, datatype, shape), part in zip(tensors, data)
        ]
        head = {"type": "infer", "request": number, "id": id, "class": "be", "timeout_us": 10**7}
        self.send({**head, "inputs": inputs, "outputs": ["names", "sums", "is_done"]}, b"".join(data))

    def ask_text(self, number, fields):
        """Asks a model that generates text; returns its parts and the last message."""
        text = json.dumps(fields).encode()
        data = struct.pack("<I", len(text)) + text
        given = {"name": "request", "datatype": "BYTES", "shape": [1], "bytes": len(data)}
        head = {"type": "infer", "request": number, "id": "", "class": "be", "timeout_us": 10**7}
        self.send({**head, "inputs": [given], "outputs": ["text", "finish_reason", "tokens"]}, data)
        parts = []
        while (said := self.receive())[0]["type"] == "part":
            lengths = [output["bytes"] for output in said[0]["outputs"]]
            text, reason = said[1][4 : lengths[0]], said[1][lengths[0] + 4 : sum(lengths[:2])]
            parts.append((text.decode(), reason.decode(), struct.unpack("<qq", said[1][sum(lengths[:2]) :])))
        return parts, said[0]

    def end(self):
        self.socket.close()
        output, _ = self.process.communicate(timeout=60)
        return self.process.returncode, output.decode()


class Serve(unittest.TestCase):
    def test_arrays_of_numpy_go_in_and_out(self):
        with tempfile.TemporaryDirectory() as folder:
            daemon = Daemon(folder)
            ready, _ = daemon.receive()
            self.assertEqual(ready["type"], "ready", ready)
            self.assertEqual(ready["inputs"][0], {"name": "x", "datatype": "FP32", "shape": [-1, 2]})
            x = np.array([[1, 2], [3, 4], [5, 6]], np.float32)
            daemon.infer(1, "", x, [b"a", b"bc"])
            answer, data = daemon.receive()
            self.assertEqual((answer["type"], answer["request"]), ("answer", 1), answer)
            self.assertEqual([one["shape"] for one in answer["outputs"]], [[2], [3], [1]])
            self.assertEqual(data[:14], b"\x02\0\0\0aa\x04\0\0\0bcbc")
            np.testing.assert_array_equal(np.frombuffer(data[14:26], "<f4"), x.sum(axis=1))
            self.assertEqual(data[26:], b"\x01")
            self.assertEqual(daemon.end(), (0, ""))

    def test_requests_of_a_batch_have_their_own_answers(self):
        with tempfile.TemporaryDirectory() as folder:
            daemon = Daemon(folder, BATCHES)
            self.assertTrue(daemon.receive()[0]["batches"])
            for first, ids in [(1, ["", "wrong", ""]), (4, ["none", ""])]:
                daemon.send({"type": "batch", "requests": list(range(first, first + len(ids)))})
                for number, id in enumerate(ids, first):
                    daemon.infer(number, id, np.zeros((1, 2), np.float32), [])
            said = [daemon.receive() for _ in range(5)]
            self.assertEqual([header["request"] for header, _ in said], [1, 2, 3, 4, 5])
            self.assertEqual([header["type"] for header, _ in said], ["answer", "error", "answer", "error", "error"])
            self.assertEqual(np.frombuffer(said[0][1][:4], "<f4"), [3.0])
            self.assertEqual((said[1][0]["kind"], said[1][0]["error"]), ("invalid", "no"))
            want = "RuntimeError: infer_batch must return one answer for each request, got 0 for 2"
            self.assertEqual((said[3][0]["error"], said[4][0]["error"]), (want, want))
            daemon.infer(6, "", np.zeros((1, 2), np.float32), [])
            self.assertEqual(np.frombuffer(daemon.receive()[1][:4], "<f4"), [1.0])
            daemon.end()

    def test_request_of_a_batch_hears_that_it_is_cancelled(self):
        with tempfile.TemporaryDirectory() as folder:
            daemon = Daemon(folder, BATCHES)
            daemon.receive()
            daemon.send({"type": "batch", "requests": [1, 2]})
            daemon.infer(1, "wait", np.zeros((1, 2), np.float32), [])
            daemon.infer(2, "", np.zeros((1, 2), np.float32), [])
            daemon.send({"type": "cancel", "request": 2})
            said = [daemon.receive()[0] for _ in range(2)]
            self.assertEqual([(one["type"], one["request"]) for one in said], [("answer", 1), ("answer", 2)])
            daemon.end()

    def test_running_request_hears_that_it_is_cancelled(self):
        with tempfile.TemporaryDirectory() as folder:
            daemon = Daemon(folder)
            daemon.receive()
            for number, id in [(1, "wait"), (2, "wait in a thread")]:
                daemon.infer(number, id, np.zeros((1, 2)), [])
                daemon.send({"type": "cancel", "request": number})
                said, _ = daemon.receive()
                self.assertEqual(said, {"type": "error", "request": number, "error": "cancelled", "kind": "invalid"})
                daemon.send({"type": "cancel", "request": number})  # too late, and ignored
            self.assertEqual(daemon.end(), (0, ""))

    def test_thread_that_outlives_its_request_takes_no_message_of_others(self):
        with tempfile.TemporaryDirectory() as folder:
            daemon = Daemon(folder)
            daemon.receive()
            for number in range(1, 50):
                daemon.infer(number, "left" if number == 1 else "", np.zeros((1, 2)), [])
                said, _ = daemon.receive()
                self.assertEqual((said["type"], said["request"]), ("answer", number))
            self.assertEqual(daemon.end()[0], 0)

    def test_request_is_read_by_the_thread_that_runs_it(self):
        """Another one would have to wake it up for each."""
        with tempfile.TemporaryDirectory() as folder:
            daemon = Daemon(folder)
            daemon.receive()
            daemon.infer(1, "threads", np.zeros((1, 2)), [])
            answer, data = daemon.receive()
            self.assertEqual((answer["outputs"][0]["shape"], data[:14]), ([1], b"\x0a\0\0\0MainThread"))
            daemon.end()

    def test_program_ends_after_the_request_that_runs_when_its_daemon_ends(self):
        with tempfile.TemporaryDirectory() as folder:
            daemon = Daemon(folder)
            daemon.receive()
            daemon.infer(1, "wait", np.zeros((1, 2)), [])
            daemon.send({"type": "cancel", "request": 1})
            self.assertEqual(daemon.end()[0], 0)

    def test_library_for_phases_is_searched_now_and_then(self):
        """A search takes longer than an empty request, and programs may open the driver late."""
        phases = _phase.Phases()
        times = [7.0, 7.01, 7.09, 7.11, 7.12]
        with mock.patch.object(_phase, "monotonic", lambda: times.pop(0)), mock.patch.object(_phase, "_library", return_value=None) as search:
            for _ in range(5):
                with phases.of("rt"):
                    pass
        self.assertEqual(([], 2), (times, search.call_count))

    def test_search_for_phases_goes_on_next_to_a_thread_that_opens_libraries(self):
        with tempfile.TemporaryDirectory() as folder:
            library = Path(folder, "libnew.so")
            subprocess.run(["cc", "-shared", "-x", "c", "-", "-o", library], input=b"int reef_new;", check=True)
            subprocess.run([sys.executable, "-c", OPENS, library], check=True, timeout=120)

    def test_text_is_sent_in_pieces_up_to_its_end(self):
        with tempfile.TemporaryDirectory() as folder:
            daemon = Daemon(folder, TEXT)
            ready, _ = daemon.receive()
            self.assertEqual((ready["streams"], ready["text"]), (True, {"parameters": ["seed"]}))
            self.assertEqual([one["name"] for one in ready["outputs"]], ["text", "finish_reason", "tokens"])
            said = [{"role": "system", "content": "a"}, {"role": "user", "content": "b"}]
            parts, last = daemon.ask_text(1, {"messages": said, "seed": 2})
            self.assertEqual(parts, [("aa", "", (2, 1)), ("bb", "", (2, 2)), ("", "stop", (2, 2))])
            self.assertEqual(last, {"type": "end", "request": 1})
            parts, _ = daemon.ask_text(2, {"prompt": "a b c", "max_tokens": 2})
            self.assertEqual(parts, [("a", "", (3, 1)), ("b", "length", (3, 2))])
            parts, _ = daemon.ask_text(3, {"prompt": "a long b"})
            self.assertEqual(parts, [("a", "", (3, 1)), ("l o n g", "length", (3, 5))])
            parts, _ = daemon.ask_text(4, {"prompt": "bytes"})
            self.assertEqual(parts, [("ä", "", (1, 2)), ("\ufffd", "stop", (1, 3))])
            self.assertEqual(daemon.end(), (0, "closed\n" * 4))

    def test_text_ends_before_the_first_stop(self):
        with tempfile.TemporaryDirectory() as folder:
            daemon = Daemon(folder, TEXT)
            daemon.receive()
            parts, _ = daemon.ask_text(1, {"prompt": "xa bc d", "stop": ["cd", "abc"]})
            self.assertEqual(parts, [("x", "", (3, 1)), ("", "stop", (3, 2))])
            parts, _ = daemon.ask_text(2, {"prompt": "xa b", "stop": ["abc"]})
            self.assertEqual(parts, [("x", "", (2, 1)), ("ab", "stop", (2, 2))])
            self.assertEqual(daemon.end(), (0, "closed\n" * 2))

    def test_wrong_request_for_text_is_refused_in_words(self):
        with tempfile.TemporaryDirectory() as folder:
            daemon = Daemon(folder, TEXT)
            daemon.receive()
            for number, (fields, want) in enumerate(
                [
                    ([], "request: must be a JSON object"),
                    ({}, "request: must have one of messages and prompt"),
                    ({"prompt": "a", "messages": []}, "messages: must be a list of objects with role, content and perhaps name, all texts"),
                    ({"prompt": 1}, "prompt: must be str, got int"),
                    ({"prompt": "a", "max_tokens": 6}, "max_tokens: must be 1 to 5, got 6"),
                    ({"prompt": "a", "stop": [""]}, "stop: must be a list of texts that are not empty"),
                    ({"prompt": "a", "top_p": 0.5}, "top_p: is not supported by this model"),
                    ({"prompt": "a", "seed": 0.5}, "seed: must be int, got float"),
                    ({"prompt": "a", "best": 1}, "request: unknown field 'best'"),
                    ({"prompt": "raise"}, "no such word"),
                ]
            ):
                parts, last = daemon.ask_text(number, fields)
                self.assertEqual((parts, last["kind"], last["error"]), ([], "invalid", want))
            daemon.end()

    def test_input_is_read_from_the_file_that_comes_before_it(self):
        with tempfile.TemporaryDirectory() as folder:
            daemon = Daemon(folder, files=True)
            self.assertTrue(daemon.receive()[0]["files"])
            descriptors = Path(f"/proc/{daemon.process.pid}/fd")
            before = len(list(descriptors.iterdir()))
            memory = Path(folder, "memory")
            memory.write_bytes(b"head" + np.arange(6, dtype="<f4").tobytes())
            inputs = [
                {"name": "x", "datatype": "FP32", "shape": [3, 2], "bytes": 24, "offset": 4},
                {"name": "names", "datatype": "BYTES", "shape": [1], "bytes": 5},
                {"name": "times", "datatype": "INT64", "shape": [1], "bytes": 8},
            ]
            head = {"type": "infer", "id": "", "class": "be", "timeout_us": 10**7, "inputs": inputs, "outputs": ["sums"]}
            file_frame = struct.pack("<IQ", 15, 0) + b'{"type":"file"}'
            said = []
            for number, length in [(1, 28), (2, 20)]:
                os.truncate(memory, length)
                with open(memory, "rb") as file:
                    socket.send_fds(daemon.socket, [file_frame], [file.fileno()])
                daemon.send({**head, "request": number}, b"\1\0\0\0a" + struct.pack("<q", 2))
                said.append(daemon.receive())
            self.assertEqual(np.frombuffer(said[0][1], "<f4").tolist(), [1, 5, 9])
            want = "ValueError: shared memory: must have 24 bytes at 4, got 16"
            self.assertEqual((said[1][0]["kind"], said[1][0]["error"]), ("invalid", want))
            self.assertEqual(len(list(descriptors.iterdir())), before)
            self.assertEqual(daemon.end(), (0, ""))

    def test_file_without_its_descriptor_ends_the_process(self):
        with tempfile.TemporaryDirectory() as folder:
            daemon = Daemon(folder, files=True)
            daemon.receive()
            daemon.send({"type": "file"})
            output, _ = daemon.process.communicate(timeout=60)
            self.assertIn("a file came without its descriptor", output.decode())
            daemon.socket.close()

    def test_files_are_not_declared_to_a_daemon_without_them(self):
        with tempfile.TemporaryDirectory() as folder:
            daemon = Daemon(folder)
            self.assertNotIn("files", daemon.receive()[0])
            daemon.end()

    def start_places(self, folder, gpu=b"fake device no 0"):
        """A model that takes inputs in device memory, and a function that asks it."""
        Path(folder, "libcuda.so.1").symlink_to(DRIVER)
        facts = {"device": "cuda:0", "device_memory": True, "gpu": gpu.hex()}
        daemon = Daemon(folder, PLACES, env={**os.environ, "LD_LIBRARY_PATH": folder}, **facts)
        self.addCleanup(daemon.process.stdout.close)
        self.addCleanup(daemon.process.wait)
        self.addCleanup(daemon.socket.close)
        self.assertTrue(daemon.receive()[0]["device_memory"])
        head = {"type": "infer", "request": 1, "class": "be", "timeout_us": 10**7, "outputs": ["said"]}

        def ask(id, process=None, more=()):
            """Asks with an input in memory of a process, or with bytes, and `more` inputs."""
            x, data = {"name": "x", "datatype": "FP32", "shape": [3, 2], "bytes": 24}, bytes(24)
            if process is not None:  # handles of the driver for tests: process, address, place, bytes
                handle, data = struct.pack("<8Q", process, 4096, 0, 64, 0, 0, 0, 0), b""
                x["device"] = {"handle": handle.hex(), "offset": 8}
            daemon.send({**head, "id": id, "inputs": [x, *more]}, data)
            said, data = daemon.receive()
            return json.loads(data[4:]) if said["type"] == "answer" else (said["kind"], said["error"])

        return daemon, ask

    @unittest.skipIf(DRIVER is None, "no driver for tests")
    def test_input_in_device_memory_is_open_until_the_answer(self):
        with tempfile.TemporaryDirectory() as folder:
            daemon, ask = self.start_places(folder)
            place, address, datatype, numbers = ask("", os.getpid())
            want = {"shape": [3, 2], "typestr": "<f4", "data": [address, False], "strides": None, "version": 3}
            self.assertEqual((place, datatype, numbers), (want, "FP32", [0.0] * 6))
            invalid_value = 1
            self.assertEqual(ask("close again"), invalid_value)
            self.assertEqual(ask("raise", os.getpid()), ("failed", "ValueError: no"))
            self.assertEqual(ask("close again"), invalid_value)
            self.assertEqual(ask("raise another", os.getpid()), ("failed", "RuntimeError: another"))
            self.assertEqual(ask("close again"), invalid_value)
            unknown = [{"name": "none", "datatype": "FP32", "shape": [1], "bytes": 0}]
            self.assertEqual(ask("", os.getpid(), unknown), ("invalid", "KeyError: 'none'"))
            self.assertEqual(ask("", os.getpid())[2], "FP32")
            self.assertEqual(ask("close again"), invalid_value)
            want = ("invalid", "RuntimeError: cuIpcOpenMemHandle_v2: code 201")  # it is its own
            self.assertEqual(ask("", daemon.process.pid), want)
            self.assertEqual(ask("", os.getpid())[2], "FP32")

    def test_coroutine_that_caught_an_error_runs_on(self):
        class Pause:
            def __await__(self):
                yield

        async def work():
            try:
                raise ValueError("no")
            except ValueError as error:
                errors.append(error)
            await Pause()
            return 7

        errors, coroutine = [], work()
        coroutine.send(None)
        _forget_frames(errors[0])
        with self.assertRaises(StopIteration) as ended:
            coroutine.send(None)
        self.assertEqual(ended.exception.value, 7)

    @unittest.skipIf(DRIVER is None, "no driver for tests")
    def test_device_memory_of_a_gpu_that_is_not_visible_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            _, ask = self.start_places(folder, b"another device 0")
            want = ("invalid", "RuntimeError: cuda:0 must be visible to the program, got 1 others")
            self.assertEqual(ask("", os.getpid()), want)

    def test_device_memory_is_declared_by_a_model_that_takes_it(self):
        for text, facts in [(MODEL, {"device_memory": True}), (PLACES, {})]:
            with tempfile.TemporaryDirectory() as folder:
                daemon = Daemon(folder, text, **facts)
                self.assertNotIn("device_memory", daemon.receive()[0])
                daemon.end()

    def test_message_that_cannot_be_read_ends_the_process(self):
        with tempfile.TemporaryDirectory() as folder:
            daemon = Daemon(folder)
            daemon.receive()
            daemon.socket.sendall(struct.pack("<IQ", 1, 0) + b"{")
            output, _ = daemon.process.communicate(timeout=60)
            self.assertIn("JSONDecodeError", output.decode())
            daemon.socket.close()

    def test_text_of_an_error_fits_a_header(self):
        with tempfile.TemporaryDirectory() as folder:
            daemon = Daemon(folder)
            daemon.receive()
            daemon.infer(1, "long", np.zeros((1, 2)), [])
            said, _ = daemon.receive()
            self.assertEqual((said["kind"], said["error"]), ("invalid", "?" + "a" * 4095))
            self.assertEqual(daemon.end(), (0, ""))

    def test_model_that_cannot_load_says_why(self):
        with tempfile.TemporaryDirectory() as folder:
            daemon = Daemon(folder, MODEL.replace('assert "reef', 'raise OSError("no weights")  # "'))
            self.assertEqual(daemon.receive()[0], {"type": "error", "error": "OSError: no weights"})
            code, output = daemon.end()
            self.assertEqual(code, 1)
            self.assertIn("Traceback", output)

    def test_program_without_a_daemon_is_refused_in_words(self):
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "model.py").write_text(MODEL)
            command = [sys.executable, "model.py"]
            said = subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True)
            self.assertEqual(said.returncode, 1)
            self.assertTrue(said.stderr.startswith("reef.serve: standard input must be the daemon's socket"), said.stderr)

    def test_outputs_are_not_cut_to_integers(self):
        whole, real = Spec.of("n", ("INT64", [-1])), Spec.of("x", ("FP32", [-1]))
        large = Spec.of("u", ("UINT64", [-1]))
        values = [(whole, [1, 2]), (large, [2**63, 1]), (large, [np.uint64(2**63), 1]), (whole, np.zeros((2, 0)))]
        values += [(real, [1, 2.5]), (real, np.float64(3)), (real, np.array([1, 2.5], object))]
        for spec, value in values:
            header, data = spec.encode(value)
            self.assertEqual((header["shape"], len(data)), (list(np.shape(value)), header["bytes"]))
        for spec, value, found in [(whole, [1.5, 2.0], "float64"), (whole, np.ones(2), "float64"), (real, [None], "object")]:
            with self.assertRaisesRegex(TypeError, f"tensor '{spec.name}': must be {spec.datatype}, got {found}"):
                spec.encode(value)

    def test_arrays_of_texts_keep_sizes_of_zero(self):
        texts = Spec.of("t", ("BYTES", [-1, -1]))
        for shape in [(0, 3), (2, 0), (1, 2)]:
            header, _ = texts.encode(np.full(shape, "a", object))
            self.assertEqual(header["shape"], list(shape))

    def test_request_has_the_number_and_flags_of_its_sequence(self):
        from reef.serve._model import Request
        from reef.serve._triton_utils import InferenceRequest

        head = {"id": "", "class": "be", "timeout_us": 0, "outputs": []}
        for start, end, flags in [(True, False, 1), (False, True, 2), (True, True, 3), (False, False, 0)]:
            request = Request({**head, "sequence": {"id": 3, "start": start, "end": end}}, {})
            self.assertEqual((request.sequence, request.starts_sequence, request.ends_sequence), (3, start, end))
            of_triton = InferenceRequest(request)
            self.assertEqual((of_triton.correlation_id(), of_triton.flags()), (3, flags))
        alone = Request(head, {})
        self.assertEqual((alone.sequence, InferenceRequest(alone).correlation_id()), (None, 0))

    def test_lines_of_a_model_of_triton_go_to_the_log(self):
        from reef.serve._triton_utils import Logger

        with contextlib.redirect_stderr(io.StringIO()) as log:
            Logger.log("one")
            Logger.log("two", Logger.WARNING)
            Logger.log_info("three")
            for level in (Logger.INFO, Logger.ERROR, Logger.VERBOSE):
                Logger.log("more", level)
        self.assertEqual(log.getvalue(), "one\ntwo\nthree\n" + 3 * "more\n")

    def test_types_of_numpy_have_the_numbers_of_triton(self):
        from reef.serve import _triton_utils as utils

        types = [np.bool_, np.uint8, np.uint16, np.uint32, np.uint64, np.int8, np.int16, np.int32, np.int64]
        types += [np.float16, np.float32, np.float64, np.object_]
        for number, of in enumerate(types, 1):
            self.assertEqual((utils.numpy_to_triton_type(of), utils.triton_to_numpy_type(number)), (number, of))
            self.assertEqual(utils.Tensor("x", np.empty(1, of)).triton_dtype(), number)
        with self.assertRaisesRegex(TypeError, "no datatype for complex64"):
            utils.numpy_to_triton_type(np.complex64)
        self.assertIs(Spec.of("n", ("INT64", [1])).decode([1], memoryview(bytes(8))).dtype.type, np.int64)
        self.assertEqual(utils.numpy_to_triton_type(np.dtype("S3")), 13)
        with self.assertRaisesRegex(utils.TritonModelException, "no type of NumPy for the number 14"):
            utils.triton_to_numpy_type(14)

    def test_error_of_a_model_of_triton_keeps_its_kind(self):
        config = {"input": {"name": "x", "data_type": "TYPE_FP32", "dims": [-1, 2]}}
        config["output"] = [{"name": "y", "data_type": "TYPE_FP32", "dims": [1]}]
        with tempfile.TemporaryDirectory() as folder:
            daemon = Daemon(folder, TRITON, ["-m", "reef.serve.triton"], config=config)
            self.assertEqual(daemon.receive()[0]["type"], "ready")
            given = [{"name": "x", "datatype": "FP32", "shape": [1, 2], "bytes": 8}]
            head = {"type": "infer", "class": "be", "timeout_us": 10**7, "inputs": given, "outputs": ["y"]}
            kinds = {"INVALID_ARG": "invalid", "UNAVAILABLE": "unavailable", "INTERNAL": "failed", "NOT_FOUND": "failed"}
            for number, (code, kind) in enumerate(kinds.items()):
                daemon.send({**head, "request": number, "id": code}, bytes(8))
                said, _ = daemon.receive()
                self.assertEqual(said, {"type": "error", "request": number, "error": "no", "kind": kind})
            daemon.end()

    def test_texts_that_do_not_match_their_lengths_are_refused(self):
        texts = Spec.of("t", ("BYTES", [-1]))
        for shape, data in [([2], b"\1\0\0\0a"), ([1], b"\5\0\0\0a"), ([1], b"\0\0"), ([0], b"\0\0\0\0")]:
            with self.assertRaises(ValueError, msg=data):
                texts.decode(shape, memoryview(data))
        self.assertEqual(list(texts.decode([2], memoryview(b"\1\0\0\0a\0\0\0\0"))), [b"a", b""])

    def test_wrong_declaration_is_refused_with_its_tensor(self):
        with tempfile.TemporaryDirectory() as folder:
            daemon = Daemon(folder, MODEL.replace('"times": int', '"times": list'))
            said, _ = daemon.receive()
            self.assertIn("tensor 'times': must be declared as str", said["error"])
            daemon.end()


if __name__ == "__main__":
    os.environ.setdefault("PYTHONDONTWRITEBYTECODE", "1")
    unittest.main()
