#!/usr/bin/env python3
"""Tensors in device memory of a client (CUDA shared memory) against a daemon that this starts: checks, then times.

    python3 tools/cuda_shared_memory.py [REEF] [DEVICE]      # default: target/release/reef cuda:0

Needs an NVIDIA GPU with its driver, and nothing beyond Python's own library: memory and handles come from libcuda by
ctypes, requests are JSON over the daemon's Unix socket. Where Python has grpcio, the same is asked over gRPC as well. A
program with reef.serve opens such memory, too. Exit codes: 0 all passed, 1 something didn't. On a device that isn't CUDA's
it checks that the daemon refuses by name, and says so.
"""

import base64
import ctypes
import http.client
import json
import os
import pathlib
import random
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

try:
    import cuda_shared_memory_grpc as over_grpc
except ImportError:
    over_grpc = None

REEF = sys.argv[1] if len(sys.argv) > 1 else "target/release/reef"
DEVICE = sys.argv[2] if len(sys.argv) > 2 else "cuda:0"
MODEL = "resnet50"
SHAPE = [1, 3, 224, 224]
INPUT, OUTPUT = 4 * 3 * 224 * 224, 4 * 1000
ROUNDS = 300
UNMAPPING = "from and to regions, while another region is unmapped"
SOON = 60  # seconds, for what should take moments
PACKAGE = pathlib.Path(__file__).resolve().parents[1] / "crates/reef-python/python"

# A model that answers with the numbers of its input, or with the first and the last.
PROGRAM = """
import ctypes
import reef.serve

class Numbers(reef.serve.Model):
    device_memory = True
    inputs = {"x": ("FP32", [-1])}
    outputs = {"y": ("FP32", [-1])}

    def load(self, device):
        self.driver, number, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_int(), ctypes.c_void_p()
        ordinal = int(device.partition(":")[2])
        codes = [self.driver.cuInit(0), self.driver.cuDeviceGet(ctypes.byref(number), ordinal)]
        codes += [self.driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), number), self.driver.cuCtxSetCurrent(context)]
        assert not any(codes), codes

    def read(self, address, count):
        numbers, size = (ctypes.c_float * count)(), ctypes.c_size_t(4 * count)
        code = self.driver.cuMemcpyDtoH_v2(numbers, ctypes.c_uint64(address), size)
        assert code == 0, code
        return list(numbers)

    def infer(self, request):
        x = request["x"]
        if not isinstance(x, reef.serve.DeviceArray):
            numbers = list(x) if request.id == "all" else [x[0], x[len(x) - 1]]
        elif request.id == "all":
            numbers = self.read(x.address, x.shape[0])
        else:
            numbers = self.read(x.address, 1) + self.read(x.address + 4 * (x.shape[0] - 1), 1)
        return {"y": numbers}

reef.serve.run(Numbers)
"""


class Daemon(http.client.HTTPConnection):
    """HTTP over the daemon's Unix socket."""

    def __init__(self, path):
        super().__init__("localhost", timeout=SOON)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(SOON)
        self.sock.connect(self.path)

    def ask(self, method, path, body=None, head=None, parts=()):
        """The status and the answer: JSON, or text and bytes behind it."""
        text = b"" if body is None else json.dumps(body).encode()
        headers = dict(head or {})
        if parts:
            headers["Inference-Header-Content-Length"] = str(len(text))
        self.request(method, path, text + b"".join(parts), headers)
        answer = self.getresponse()
        said = answer.read()
        length = answer.getheader("Inference-Header-Content-Length")
        if length is None:
            return answer.status, said
        return answer.status, said[int(length):]

    def get(self, path):
        status, said = self.ask("GET", path)
        assert status == 200, (path, status, said)
        return json.loads(said)

    def post(self, path, body=None):
        return self.ask("POST", path, {} if body is None else body)

    def register(self, name, handle, size, device=0):
        body = {"raw_handle": {"b64": base64.b64encode(handle).decode()}, "device_id": device, "byte_size": size}
        return self.post(f"/v2/cudasharedmemory/region/{name}/register", body)

    def infer(self, priority, data=None, source=None, to=None):
        """An inference of bytes, or of a region and an offset; to a region and an offset, or the answer."""
        tensor = {"name": "input", "datatype": "FP32", "shape": SHAPE}
        output = {"name": "logits", "parameters": {"binary_data": True}}
        if data is not None:
            tensor["parameters"] = {"binary_data_size": INPUT}
        else:
            tensor["parameters"] = part(source, INPUT)
        if to is not None:
            output["parameters"] = part(to, OUTPUT)
        body = {"inputs": [tensor], "outputs": [output], "parameters": {"priority": priority}}
        return self.ask("POST", f"/v2/models/{MODEL}/infer", body, parts=() if data is None else (data,))

    def numbers(self, id, data=None, source=None):
        """The program's answer for bytes, or for a region and an offset."""
        tensor = {"name": "x", "datatype": "FP32", "shape": [INPUT // 4]}
        tensor["parameters"] = {"binary_data_size": INPUT} if source is None else part(source, INPUT)
        output = {"name": "y", "parameters": {"binary_data": True}}
        body = {"id": id, "inputs": [tensor], "outputs": [output], "parameters": {"priority": 1}}
        return self.ask("POST", "/v2/models/numbers/infer", body, parts=() if data is None else (data,))

    def memory(self):
        """Bytes that are reserved of the device."""
        _, text = self.ask("GET", "/metrics")
        lines = [line for line in text.decode().splitlines() if line.startswith("reef_device_memory_bytes{")]
        return sum(float(line.split()[1]) for line in lines)


def part(place, size):
    region, offset = place
    return {"shared_memory_region": region, "shared_memory_offset": offset, "shared_memory_byte_size": size}


class Handle(ctypes.Structure):
    _fields_ = [("reserved", ctypes.c_ubyte * 64)]


class Cuda:
    """The driver, and memory of one device."""

    def __init__(self, ordinal):
        self.driver = ctypes.CDLL("libcuda.so.1")
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDeviceGet", ctypes.byref(device), ordinal)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)

    def call(self, name, *arguments):
        code = getattr(self.driver, name)(*arguments)
        assert code == 0, f"{name}: code {code}"

    def alloc(self, size):
        memory, handle = ctypes.c_uint64(), Handle()
        self.call("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(size))
        self.call("cuIpcGetMemHandle", ctypes.byref(handle), memory)
        return memory, bytes(handle.reserved)

    def write(self, memory, data, offset=0):
        at = ctypes.c_uint64(memory.value + offset)
        self.call("cuMemcpyHtoD_v2", at, data, ctypes.c_size_t(len(data)))

    def read(self, memory, size, offset=0):
        data = ctypes.create_string_buffer(size)
        at = ctypes.c_uint64(memory.value + offset)
        self.call("cuMemcpyDtoH_v2", data, at, ctypes.c_size_t(size))
        return data.raw


def picture(seed):
    values = random.Random(seed)
    return struct.pack(f"<{INPUT // 4}f", *(values.uniform(-1, 1) for _ in range(INPUT // 4)))


def until(what, look):
    begun = time.monotonic()
    while not look():
        assert time.monotonic() - begun < SOON, f"{what}: not within {SOON} s"
        time.sleep(0.05)


def check(what, so, why=""):
    print(f"{'ok    ' if so else 'FAILED'} {what}{'' if so else f': {why}'}", flush=True)
    if not so:
        check.failed += 1


check.failed = 0


def results(daemon, cuda):
    source, a = cuda.alloc(INPUT + 256)
    to, b = cuda.alloc(OUTPUT)
    for name, handle, size in (("in", a, INPUT + 256), ("out", b, OUTPUT)):
        status, said = daemon.register(name, handle, size)
        check(f"register {name}", status == 200, (status, said))
    listed = sorted((one["name"], one["byte_size"]) for one in daemon.get("/v2/cudasharedmemory/status"))
    check("status lists both", listed == [("in", INPUT + 256), ("out", OUTPUT)], listed)
    check("the system's status lists none", daemon.get("/v2/systemsharedmemory/status") == [])
    for seed, (priority, offset) in enumerate(((1, 0), (2, 0), (1, 20), (2, 20))):
        data = picture(seed)
        status, want = daemon.infer(priority, data)
        check(f"priority {priority}: by the request", (status, len(want)) == (200, OUTPUT), (status, want[:200]))
        cuda.write(source, data, offset)
        _, got = daemon.infer(priority, source=("in", offset))
        check(f"priority {priority}: from the region at {offset}", got == want, got[:200])
        for way, given in (("region", {"source": ("in", offset)}), ("request", {"data": data})):
            cuda.write(to, bytes(OUTPUT))
            status, said = daemon.infer(priority, to=("out", 0), **given)
            so = status == 200 and cuda.read(to, OUTPUT) == want
            check(f"priority {priority}: from the {way} to a region", so, (status, said[:200]))
    return source, to


def by_grpc(daemon, cuda, calls):
    """Registration, inferences and what is refused over gRPC, next to the answers by JSON."""
    source, a = cuda.alloc(INPUT + 256)
    to, b = cuda.alloc(OUTPUT)
    calls.register("in", a, INPUT + 256)
    calls.register("out", b, OUTPUT)
    device = int(DEVICE.split("?")[0].partition(":")[2] or 0)
    want = [("in", device, INPUT + 256), ("out", device, OUTPUT)]
    check("gRPC: status lists both", calls.listed() == want, calls.listed())
    for seed, (priority, offset) in enumerate(((1, 0), (2, 20))):
        data = picture(seed)
        _, want = daemon.infer(priority, data)
        cuda.write(source, data, offset)
        cuda.write(to, bytes(OUTPUT))
        ask = {"source": ("in", offset), "sizes": (INPUT, OUTPUT)}
        got = calls.infer(MODEL, SHAPE, priority, **ask)
        check(f"gRPC: priority {priority}: from the region at {offset}", got == want, got[:200])
        empty = calls.infer(MODEL, SHAPE, priority, to=("out", 0), **ask)
        so = empty == b"" and cuda.read(to, OUTPUT) == want
        check(f"gRPC: priority {priority}: from and to regions", so, empty[:200])
    for what, call, want in (
        ("a handle of nothing", lambda: calls.register("r", bytes(64), 64), "INVALID_ARGUMENT"),
        ("no such device", lambda: calls.register("r", a, 64, 99), "INVALID_ARGUMENT"),
        ("a name that is taken", lambda: calls.register("in", a, 64), "ALREADY_EXISTS"),
        ("an unknown region", lambda: calls.infer(MODEL, SHAPE, 2, source=("x", 0), sizes=(INPUT, 0)), "NOT_FOUND"),
    ):
        code, said = over_grpc.refused(call)
        check(f"gRPC: refused: {what}: {said[:120]}", code == want, (code, want))
    calls.unregister("in")
    check("gRPC: one is unregistered", [one[0] for one in calls.listed()] == ["out"], calls.listed())
    calls.unregister()
    check("gRPC: all are unregistered", calls.listed() == [], calls.listed())


def same_by_grpc(daemon, calls):
    """A tensor in the request gives the same by either way."""
    data = picture(7)
    _, want = daemon.infer(2, data)
    got = calls.infer(MODEL, SHAPE, 2, data)
    check("gRPC: by the request, as by JSON", len(got) == OUTPUT and got == want, got[:200])


def refusals(daemon, cuda):
    _, handle = cuda.alloc(4096)
    for what, (status, said), want in (
        ("a handle of nothing", daemon.register("r", bytes(64), 64), 400),
        ("a handle that is too short", daemon.register("r", handle[:63], 64), 400),
        ("no such device", daemon.register("r", handle, 64, 99), 400),
        ("more than was allocated", daemon.register("r", handle, 1 << 28), 400),
        ("a name that is taken", daemon.register("in", handle, 64), 409),
        ("a tensor outside", daemon.infer(2, source=("in", 260)), 400),
        ("an unknown region", daemon.infer(2, source=("x", 0)), 404),
    ):
        check(f"refused: {what}: {said.decode(errors='replace')[:120]}", status == want, (status, want))


def times(daemon, cuda, source, to):
    data = picture(1)
    cuda.write(source, data)
    ways = {
        "by the request and the answer": {"data": data},
        "from and to regions": {"source": ("in", 0), "to": ("out", 0)},
        UNMAPPING: {"source": ("in", 0), "to": ("out", 0)},
    }
    _, other = cuda.alloc(2 << 20)
    taken = {way: [] for way in ways}
    for _ in range(ROUNDS):  # in turns, so that both see the same machine
        for way, given in ways.items():
            if way == UNMAPPING:
                daemon.register("other", other, 2 << 20)
                daemon.post("/v2/cudasharedmemory/region/other/unregister")
            begun = time.perf_counter()
            status, _ = daemon.infer(1, **given)
            taken[way].append(time.perf_counter() - begun)
            assert status == 200
    for way, each in taken.items():
        each.sort()
        p50, p99 = (each[int(len(each) * part)] * 1e6 for part in (0.5, 0.99))
        print(f"time   {MODEL}, real-time, {way}: p50 {p50:.0f} us, p99 {p99:.0f} us, {len(each)} requests")


def program(daemon, cuda, source):
    """A program opens the memory by itself."""
    for seed, offset in ((8, 0), (9, 20)):
        data = picture(seed)
        cuda.write(source, data, offset)
        status, said = daemon.numbers("all", source=("in", offset))
        check(f"a program: from the region at {offset}", (status, said) == (200, data), (status, said[:200]))
    taken = {"by the request": [], "from a region": []}
    for _ in range(ROUNDS):
        for way, given in zip(taken, ({"data": data}, {"source": ("in", 20)})):
            begun = time.perf_counter()
            status, said = daemon.numbers("ends", **given)
            taken[way].append(time.perf_counter() - begun)
            assert (status, said) == (200, data[:4] + data[-4:]), (status, said[:200])
    for way, each in taken.items():
        each.sort()
        p50, p99 = (each[int(len(each) * part)] * 1e6 for part in (0.5, 0.99))
        print(f"time   a program, real-time, {INPUT} bytes {way}: p50 {p50:.0f} us, p99 {p99:.0f} us, {len(each)} requests")


def put_program(folder):
    """A repository with the program. The daemon's options for it."""
    version = pathlib.Path(folder, "models/numbers/1")
    version.mkdir(parents=True)
    (version / "model.py").write_text(PROGRAM)
    command = json.dumps([sys.executable, "model.py"])
    env = f"{{ PYTHONPATH = {json.dumps(str(PACKAGE))} }}"
    (version.parent / "model.toml").write_text(f'engine = "process"\n[process]\ncommand = {command}\nenv = {env}\n')
    return ["--repository", str(version.parents[1]), "--load", f"{MODEL},numbers", "--set", "models.processes=true"]


def child(path, ordinal):
    """Registers memory and waits to be killed."""
    cuda, daemon = Cuda(ordinal), Daemon(path)
    _, handle = cuda.alloc(64 << 20)
    status, said = daemon.register("child", handle, 64 << 20)
    print("registered" if status == 200 else said.decode(), flush=True)
    time.sleep(10 * SOON)


def killed(daemon, path, ordinal):
    before = daemon.memory()
    command = [sys.executable, __file__, REEF, DEVICE, path, str(ordinal)]
    other = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    said = other.stdout.readline().strip()
    check("another client registers 64 MiB", said == "registered", said)
    check("they count", daemon.memory() == before + (64 << 20), daemon.memory() - before)
    other.send_signal(signal.SIGKILL)
    other.wait()
    until("the killed client's memory is given back", lambda: daemon.memory() == before)
    check("a killed client's region goes", True)


def grpc_calls(path):
    """The calls over gRPC; None, said aloud, without grpcio."""
    if over_grpc is None:
        return print("skipped: gRPC: Python has no grpcio")
    return over_grpc.Calls(os.path.join(os.path.dirname(path), "grpc.sock"))


def run(daemon, path, ordinal):
    calls = grpc_calls(path)
    if calls:
        same_by_grpc(daemon, calls)
    extensions = daemon.get("/v2")["extensions"]
    if "cuda_shared_memory" not in extensions:
        status, said = daemon.ask("GET", "/v2/cudasharedmemory/status")
        check(f"refused by name: {said.decode()}", status == 501 and DEVICE.split("?")[0] in said.decode(), status)
        for call in (calls.listed, calls.unregister, lambda: calls.register("r", bytes(64), 64)) if calls else ():
            code, said = over_grpc.refused(call)
            check(f"gRPC: refused by name: {said}", code == "UNIMPLEMENTED" and DEVICE.split("?")[0] in said, code)
        return print("skipped: the daemon has no CUDA device")
    cuda = Cuda(ordinal)
    before = daemon.memory()
    if calls:
        by_grpc(daemon, cuda, calls)
        check("gRPC: nothing counts any more", daemon.memory() == before, daemon.memory() - before)
    source, to = results(daemon, cuda)
    refusals(daemon, cuda)
    program(daemon, cuda, source)
    killed(daemon, path, ordinal)
    times(daemon, cuda, source, to)
    daemon.post("/v2/cudasharedmemory/region/in/unregister")
    status, _ = daemon.infer(2, source=("in", 0))
    check("unregistered", status == 404, status)
    daemon.post("/v2/cudasharedmemory/unregister")
    check("all unregistered, nothing counts", daemon.memory() == before, daemon.memory() - before)
    status, said = daemon.infer(1, picture(1))
    check("the daemon serves on", status == 200, said[:200])


def main():
    os.umask(0o022)  # the daemon starts no program that others could replace
    ordinal = DEVICE.split("?")[0].partition(":")[2]
    with tempfile.TemporaryDirectory() as folder:
        command = [REEF, "serve", "--device", DEVICE, "--socket-dir", folder, "--set", "models.builtin=true"]
        command += put_program(folder) if DEVICE.startswith("cuda") else ["--load", MODEL]
        daemon = subprocess.Popen(command, env={**os.environ, "REEF_LOG": "warn"})
        path = os.path.join(folder, "http.sock")
        try:
            until("the daemon is there", lambda: os.path.exists(path) or daemon.poll() is not None)
            run(Daemon(path), path, int(ordinal or 0))
        finally:
            daemon.terminate()
            check("the daemon ends well", daemon.wait() == 0, daemon.returncode)
    print("all passed" if check.failed == 0 else f"{check.failed} failed")
    sys.exit(min(check.failed, 1))


if len(sys.argv) == 5:
    child(sys.argv[3], int(sys.argv[4]))
else:
    main()
