#!/usr/bin/env python3
"""Faults of many models at once: engines are killed -9 while clients ask for answers that are known.

    tools/engines/faults.py [--reef FILE] [--seconds 600] [--models 16] [--clients 8] [--driver FOLDER]

Starts a daemon on the CPU device with small models: half of them programs (examples/process/scale.cpp if there is a C++ compiler, and
a program by reef.serve), half of them ONNX files that REEF reads itself, on demand, in memory that does not hold all. Clients ask
models at random, next to a real-time client in a closed loop. Meanwhile programs are killed at random times, also while they load, and models are
unloaded and loaded. With --driver, a folder with libfake_libcuda.so, libfake_libnvml.so and libreef_cuda_shim.so such as target/debug, the
programs that are by reef.serve are on demand as well, and are killed while they leave and return.

Prints a line a minute. Exit codes: 0 if it holds, 1 otherwise. It holds if each request got one answer or one error, each answer
was right, no program ran a request twice, real-time requests never failed, all models answer in the end, no program is left, and the
daemon's memory and files are flat: their median in the last quarter of the time is at most 10 % and 16 MiB (16 files) above that of the second one.
Needs Python 3.9 and a built `reef`; no other package.
"""

import argparse
import array
import collections
import http.client
import json
import os
import pathlib
import random
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
SETTINGS = [
    "models.processes=true",
    "memory.total_mib=40",
    "times.request_ms=20000",
    "limits.connects_per_second=0",
    "rights.owner={ rt = true, control = true }",
]
ANSWER_TIMEOUT = 90  # seconds after which a request is lost: the daemon has 20 for it
READY_TIMEOUT = 120  # seconds until a model answers again: a program that failed often is started after 30
INPUTS, HIDDEN, OUTPUTS = 256, 4096, 16
DRIVER = {
    "REEF_CUDA": "libfake_libcuda.so",
    "REEF_NVML_LIBRARY": "libfake_libnvml.so",
    "REEF_SHIM": "libreef_cuda_shim.so",
}
PASSED = [*DRIVER, "REEF_FAKE_PROCESSES", "REEF_FAKE_MEMORY", "REEF_FAKE_BYTES"]
PROGRAM = '''
import ctypes
import os
import random
import time

import reef.serve


class Memory:
    """A number in memory of the driver for tests, and a kernel that makes this program a guest."""

    def __init__(self, number):
        word = ctypes.c_size_t
        self.driver = ctypes.CDLL("libcuda.so.1")
        self.context, self.stream, self.at, self.kernel = word(), word(), word(), word()
        self.call("cuInit", 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), 0)
        self.call("cuCtxSetCurrent", self.context)
        self.call("cuStreamCreate", ctypes.byref(self.stream), 1)
        self.call("cuMemAlloc_v2", ctypes.byref(self.at), word(60 << 20))
        self.call("cuModuleGetFunction", ctypes.byref(self.kernel), None, b"mix")
        self.call("cuMemcpyHtoD_v2", word(self.at.value + 64), ctypes.byref(ctypes.c_double(number)), word(8))

    def call(self, name, *args):
        code = getattr(self.driver, name)(*args)
        if code:
            raise RuntimeError(f"{name}: {code}")

    def read(self):
        self.call("cuCtxSetCurrent", self.context)
        to, value = ctypes.c_uint64(self.at.value), ctypes.c_uint64(1)
        params = (ctypes.c_void_p * 2)(ctypes.addressof(to), ctypes.addressof(value))
        sizes = [ctypes.c_uint(1)] * 6 + [ctypes.c_uint(0)]
        self.call("cuLaunchKernel", self.kernel, *sizes, self.stream, params, None)
        self.call("cuStreamSynchronize", self.stream)
        number = ctypes.c_double()
        self.call("cuMemcpyDtoH_v2", ctypes.byref(number), ctypes.c_size_t(self.at.value + 64), ctypes.c_size_t(8))
        return number.value


class Scale(reef.serve.Model):
    inputs = {"x": ("FP32", [-1])}
    outputs = {"y": ("FP32", [-1])}

    def load(self, device):
        self.factor = float(os.environ["FACTOR"])
        self.memory = Memory(self.factor) if "REEF_CUDA" in os.environ else None
        time.sleep(random.random() * 0.3)  # so that it is killed here, too
        self.log = os.open(os.environ["LOG"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def infer(self, request):
        os.write(self.log, request.id.encode() + b"\\n")
        factor = self.memory.read() if self.memory else self.factor
        return {"y": [factor * float(value) for value in request["x"]]}


reef.serve.run(Scale)
'''


def varint(number):
    data = bytearray()
    while number >= 0x80:
        data.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*data, number])


def number(field, value):
    """A number of an ONNX file."""
    return varint(field << 3) + varint(value)


def data(field, value):
    """Bytes or a text of an ONNX file."""
    value = value.encode() if isinstance(value, str) else value
    return varint(field << 3 | 2) + varint(len(value)) + value


def onnx(factor):
    """Two products: a sum of all inputs, and its multiple, 16 times. All numbers are exact, and short as text."""

    def weights(name, rows, columns, value):
        raw = array.array("f", [value] * (rows * columns)).tobytes()
        return data(5, number(1, rows) + number(1, columns) + number(2, 1) + data(8, name) + data(9, raw))

    def port(field, name, columns):
        sizes = b"".join(data(1, number(1, size)) for size in (1, columns))
        return data(field, data(1, name) + data(2, data(1, number(1, 1) + data(2, sizes))))

    def product(left, right, out):
        return data(1, data(1, left) + data(1, right) + data(2, out) + data(3, out) + data(4, "MatMul"))

    graph = [
        product("x", "first", "sums"),
        product("sums", "second", "y"),
        weights("first", INPUTS, HIDDEN, 1 / HIDDEN),
        weights("second", HIDDEN, OUTPUTS, factor),
        port(11, "x", INPUTS),
        port(12, "y", OUTPUTS),
    ]
    return data(8, number(2, 17)) + data(7, b"".join(graph))


class Model:
    """A model and its known answers."""

    def __init__(self, name, kind, factor):
        self.name, self.kind, self.factor = name, kind, factor
        self.right = 0

    def is_program(self):
        return self.kind != "network"

    def body(self, request, value):
        shape = [4] if self.is_program() else [1, INPUTS]
        tensor = {"name": "x", "datatype": "FP32", "shape": shape, "data": [float(value)] * shape[-1]}
        return json.dumps({"id": request, "inputs": [tensor]})

    def answer(self, value):
        if self.is_program():
            return [self.factor * value] * 4
        return [self.factor * value * INPUTS] * OUTPUTS

    def put(self, work, options):
        """Writes its folder."""
        place = work / "models" / self.name / "1"
        place.mkdir(parents=True)
        if not self.is_program():
            (place / "model.onnx").write_bytes(onnx(self.factor))
            more = "" if self.name == "rt" else 'residency = "on-demand"\nidle = "100ms"\n'
            (place.parent / "model.toml").write_text(more)
            return
        env = {"MODEL": self.name, "LOG": str(work / f"{self.name}.log"), "FACTOR": str(self.factor)}
        if self.kind == "scale":
            shutil.copy(work / "scale", place / "scale")
            command, more = ["./scale"], ""
        else:
            (place / "model.py").write_text(PROGRAM)
            command, more = [sys.executable, "-S", "model.py"], ""
            env["PYTHONPATH"] = str(ROOT / "crates/reef-python/python")
            if options.driver:
                more = f'residency = "on-demand"\nidle = "100ms"\nmemory = "128MiB"\npass_env = {json.dumps(PASSED)}\n'
        named = ", ".join(f"{key} = {json.dumps(value)}" for key, value in env.items())
        text = f'engine = "process"\n[process]\ncommand = {json.dumps(command)}\nenv = {{ {named} }}\n{more}'
        (place.parent / "model.toml").write_text(text)


class Connection(http.client.HTTPConnection):
    """HTTP over the daemon's Unix socket."""

    def __init__(self, path):
        super().__init__("localhost", timeout=ANSWER_TIMEOUT)
        self.path = str(path)

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Daemon:
    """The daemon, and what the system knows of it."""

    def __init__(self, options, work, models):
        self.socket = work / "s" / "http.sock"
        environment = dict(os.environ)
        command = [options.reef, "serve", "--device", "cpu:0?units=1", "--socket-dir", str(work / "s"), "--repository", str(work / "models")]
        if options.driver:
            environment.update((key, str(options.driver / file)) for key, file in DRIVER.items())
            environment.update(REEF_FAKE_PROCESSES=str(work / "processes"), REEF_FAKE_MEMORY=str(work / "memory"))
            environment["REEF_FAKE_BYTES"] = str(720 << 20)
            command.append("--guests")
        command += ["--load", ",".join(model.name for model in models)]
        command += [word for setting in SETTINGS for word in ("--set", setting)]
        self.log = work / "log"
        with open(self.log, "wb") as log:
            self.child = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
        end = time.monotonic() + 300
        while self.get("/v2/health/ready")[0] != 200:
            if self.child.poll() is not None or time.monotonic() > end:
                self.end()
                sys.exit(f"the daemon did not start: {self.tail()}")
            time.sleep(0.1)

    def tail(self):
        return self.log.read_text(errors="replace")[-3000:]

    def get(self, path, method="GET", body=None):
        """The status and the text of an answer; 0 without one."""
        connection = Connection(self.socket)
        try:
            connection.request(method, path, body, {"content-type": "application/json"})
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        except (OSError, http.client.HTTPException) as error:
            return 0, str(error)
        finally:
            connection.close()

    def change(self, model, verb):
        """Loads or unloads a model. Returns the status."""
        return self.get(f"/v2/repository/models/{model.name}/{verb}", "POST", "{}")[0]

    def metrics(self):
        """States of models that are on demand, and the sum of their returns."""
        states, returns = {}, 0.0
        for line in self.get("/metrics")[1].splitlines():
            if line.startswith("reef_model_residency{"):
                states.setdefault(label("model", line), set()).add(label("state", line))
            elif line.startswith("reef_model_returns_total{"):
                returns += float(line.rsplit(" ", 1)[1])
        return states, returns

    def programs(self):
        """Its programs: the process, its begin, and its model."""
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                rest = (entry / "stat").read_text().rsplit(") ", 1)[1].split()
                environment = (entry / "environ").read_bytes().split(b"\0")
            except (OSError, IndexError):
                continue  # it has ended
            names = [value[6:].decode() for value in environment if value.startswith(b"MODEL=")]
            if rest[0] != "Z" and int(rest[1]) == self.child.pid and names:
                found.append((int(entry.name), int(rest[19]), names[0]))
        return found

    def memory(self):
        """Its resident memory in MiB."""
        for line in pathlib.Path(f"/proc/{self.child.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
        return 0.0

    def files(self):
        return len(os.listdir(f"/proc/{self.child.pid}/fd"))

    def end(self):
        if self.child.poll() is None:
            self.child.terminate()
            try:
                self.child.wait(60)
            except subprocess.TimeoutExpired:
                self.child.kill()
        self.child.wait()


def label(name, line):
    return line.split(f'{name}="', 1)[1].split('"', 1)[0]


class Tally:
    """Counts of what happened."""

    def __init__(self):
        self.lock = threading.Lock()
        self.asked = self.right = self.wrong = self.foreign = self.lost = 0
        self.errors, self.reasons = collections.Counter(), collections.Counter()
        self.answered = []  # identifiers that a program by reef.serve has answered
        self.real_time, self.real_time_failed = [], collections.Counter()
        self.kills, self.loads, self.unloads, self.refused_loads = collections.Counter(), 0, 0, 0

    def note(self, model, request, value, status, text):
        """Notes the answer to a request."""
        said = json.loads(text) if status == 200 else {}
        numbers = said["outputs"][0]["data"] if status == 200 else None
        with self.lock:
            self.asked += 1
            if status != 200:
                self.errors[status] += 1
            elif said.get("id") != request:
                self.foreign += 1
            elif numbers != model.answer(value):
                self.wrong += 1
            else:
                self.right += 1
                model.right += 1
                if model.kind == "package":
                    self.answered.append(request)


def client(name, daemon, models, tally, is_over):
    """Asks models at random, one request at a time."""
    chance, connection, count = random.Random(name), None, 0
    while not is_over.is_set():
        model, value, count = chance.choice(models), chance.randrange(1, 10), count + 1
        request = f"{name}-{count}"
        try:
            if connection is None or count % 50 == 0:
                connection = connection and connection.close()
                connection = Connection(daemon.socket)
            headers = {"content-type": "application/json", "reef-class": chance.choice(["be", "be", "rt"])}
            connection.request("POST", f"/v2/models/{model.name}/infer", model.body(request, value), headers)
            answer = connection.getresponse()
            tally.note(model, request, value, answer.status, answer.read())
        except (OSError, http.client.HTTPException, ValueError, LookupError) as error:
            with tally.lock:
                tally.asked += 1
                tally.lost += 1
                tally.reasons[type(error).__name__] += 1
            connection = connection and connection.close()
        is_over.wait(chance.random() * 0.02)


def real_time(daemon, model, tally, is_over):
    """Asks the model that always stays, and keeps the times."""
    connection, count = Connection(daemon.socket), 0
    headers = {"content-type": "application/json", "reef-class": "rt"}
    while not is_over.is_set():
        count += 1
        begun = time.monotonic()
        try:
            connection.request("POST", f"/v2/models/{model.name}/infer", model.body(f"rt-{count}", 3), headers)
            answer = connection.getresponse()
            text = answer.read()
            is_right = answer.status == 200 and json.loads(text)["outputs"][0]["data"] == model.answer(3)
            why = None if is_right else str(answer.status)
        except (OSError, http.client.HTTPException, ValueError, LookupError) as error:
            connection.close()
            why = type(error).__name__
        with tally.lock:
            if why:
                tally.real_time_failed[why] += 1
            else:
                tally.real_time.append(time.monotonic() - begun)
        is_over.wait(0.002)


def kill(daemon, every, tally, is_over):
    """Kills programs: one at random, the youngest one, which may load, or one that moves."""
    chance = random.Random("kill")
    while not is_over.wait(chance.expovariate(1 / every)):
        programs = daemon.programs()
        if not programs:
            continue
        states = daemon.metrics()[0]
        moving = [one for one in programs if states.get(one[2], set()) & {"leaving", "returning"}]
        what, found = chance.choice([("random", programs), ("youngest", [max(programs, key=lambda one: one[1])]), ("moving", moving)])
        if not found:
            what, found = "random", programs
        try:
            os.kill(chance.choice(found)[0], signal.SIGKILL)
        except ProcessLookupError:
            continue
        with tally.lock:
            tally.kills[what] += 1


def change(daemon, models, interval, tally, is_over):
    """Unloads models at random, and loads them again."""
    chance = random.Random("change")
    while not is_over.wait(interval):
        model = chance.choice(models)
        unloaded = daemon.change(model, "unload") == 200
        is_over.wait(chance.random() * 0.2)
        tries = 0
        while daemon.change(model, "load") != 200 and tries < 100:  # its program may have been killed
            tries += 1
            time.sleep(0.1)
        with tally.lock:
            tally.unloads += unloaded
            tally.loads += tries < 100
            tally.refused_loads += tries


def at(all, share):
    ordered = sorted(all)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("nan")


def line(begun, daemon, tally, memory, files):
    """A line on the time so far; the real-time figures are of the time since the last one."""
    with tally.lock:
        times, tally.real_time = tally.real_time, []
        errors = ", ".join(f"{status}: {count}" for status, count in sorted(tally.errors.items()))
        failed = sum(tally.real_time_failed.values())
        text = (
            f"{tally.asked} requests: {tally.right} right, errors {{{errors}}}, {tally.wrong} wrong, {tally.foreign} of others, {tally.lost} lost; "
            f"{sum(tally.kills.values())} kills {dict(tally.kills)}, {tally.loads} loads, {tally.unloads} unloads; "
        )
    returns = daemon.metrics()[1]
    print(
        f"{(time.monotonic() - begun) / 60:5.1f} min  {memory:.1f} MiB, {files} files; {text}{returns:.0f} returns of the models there; "
        f"real-time {len(times)}, p50 {1e3 * at(times, 0.5):.1f} ms, p99 {1e3 * at(times, 0.99):.1f} ms, {failed} failed",
        flush=True,
    )


def watch(daemon, tally, seconds):
    """Prints a line a minute. Returns the samples of memory and files."""
    begun, samples, shown = time.monotonic(), [], 0
    while time.monotonic() - begun < seconds and daemon.child.poll() is None:
        time.sleep(min(5, max(0.1, seconds - (time.monotonic() - begun))))
        try:
            samples.append((daemon.memory(), daemon.files()))
        except OSError:
            break  # it has ended
        if time.monotonic() - begun >= 60 * (shown + 1):
            shown += 1
            line(begun, daemon, tally, *samples[-1])
    if samples:
        line(begun, daemon, tally, *samples[-1])
    return samples


def answers(daemon, model):
    """True once a model gives its right answer; loads it if it is not there."""
    end = time.monotonic() + READY_TIMEOUT
    while time.monotonic() < end and daemon.child.poll() is None:
        status, text = daemon.get(f"/v2/models/{model.name}/infer", "POST", model.body("end", 2))
        if status == 200:
            return json.loads(text)["outputs"][0]["data"] == model.answer(2)
        if status == 404:
            daemon.change(model, "load")
        time.sleep(0.2)
    return False


def is_left(daemon, models):
    """True if programs run although all models are unloaded."""
    for model in models:
        daemon.change(model, "unload")
    end = time.monotonic() + READY_TIMEOUT
    while daemon.programs() and time.monotonic() < end:
        time.sleep(0.1)
    return bool(daemon.programs())


def defects(daemon, models, tally, samples, options, work):
    """What does not hold, in words."""
    if daemon.child.poll() is not None:
        return [f"the daemon ended with {daemon.child.returncode}: {daemon.tail()}"]
    found = [f"{model.name} does not answer in the end" for model in models if not answers(daemon, model)]
    found += [f"{model.name} was never answered" for model in models if model.name != "rt" and not model.right]
    logged = collections.Counter()
    for log in work.glob("*.log"):
        logged.update(log.read_text().split())
    del logged["end"]
    twice = [request for request, count in logged.items() if count > 1]
    unseen = [request for request in tally.answered if request not in logged]
    quarter = max(1, len(samples) // 4)
    for index, what in enumerate(["memory in MiB", "files"]):
        all = [sample[index] for sample in samples]
        early, late = statistics.median(all[quarter : 2 * quarter] or all), statistics.median(all[-quarter:])
        print(f"{what}: first {all[0]:.1f}, second quarter {early:.1f}, last quarter {late:.1f}, most {max(all):.1f}")
        if late > early * 1.1 + 16:
            found.append(f"{what} grows")
    for count, text in (
        (tally.wrong, "wrong answers"),
        (tally.foreign, "answers of other requests"),
        (tally.lost, f"requests without an answer or an error {dict(tally.reasons)}"),
        (len(twice), f"requests that a program ran twice {twice[:3]}"),
        (len(unseen), f"answers that no program gave {unseen[:3]}"),
        (sum(tally.real_time_failed.values()), f"failed real-time requests {dict(tally.real_time_failed)}"),
    ):
        if count:
            found.append(f"{count} {text}")
    if min(tally.loads, tally.unloads) < options.loads:
        found.append(f"fewer than {options.loads} loads and unloads: {tally.loads} and {tally.unloads}")
    if is_left(daemon, models):
        found.append("programs are left")
    return found


def made(options, work):
    """The models: programs and networks in turn, and the one for real-time requests."""
    compiler = shutil.which("c++")
    if compiler:
        source = ROOT / "examples/process/scale.cpp"
        subprocess.run([compiler, "-O2", "-std=c++17", "-o", str(work / "scale"), str(source)], check=True)
    else:
        print("skipped: examples/process/scale.cpp: there is no c++")
    models = []
    for place in range(options.models):
        if place % 2:
            models.append(Model(f"n{place}", "network", place + 1))
        elif compiler and place % 4:
            models.append(Model(f"s{place}", "scale", 2))
        else:
            models.append(Model(f"p{place}", "package", place + 1))
    return models, Model("rt", "network", 5)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reef", default="target/release/reef")
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--models", type=int, default=16)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--loads", type=int, default=100, help="least number of loads and of unloads")
    parser.add_argument("--kill-every", type=float, default=2.0, help="mean time between two kills in seconds")
    parser.add_argument("--driver", type=pathlib.Path, help="folder of the driver for tests: programs are on demand, too")
    options = parser.parse_args()
    options.reef = os.path.abspath(options.reef)
    options.driver = options.driver and options.driver.resolve()
    os.umask(0o022)
    with tempfile.TemporaryDirectory(prefix="reef-faults-") as folder:
        return run(options, pathlib.Path(folder))


def run(options, work):
    models, urgent = made(options, work)
    for model in [*models, urgent]:
        model.put(work, options)
    daemon, tally, is_over = Daemon(options, work, [*models, urgent]), Tally(), threading.Event()
    interval = min(2.0, options.seconds / (4 * max(1, options.loads)))
    try:
        wanted = [(client, f"c{place}", daemon, models, tally, is_over) for place in range(options.clients)]
        wanted.append((real_time, daemon, urgent, tally, is_over))
        wanted.append((kill, daemon, options.kill_every, tally, is_over))
        wanted.append((change, daemon, models, interval, tally, is_over))
        threads = [threading.Thread(target=target, args=args, daemon=True) for target, *args in wanted]
        for thread in threads:
            thread.start()
        samples = watch(daemon, tally, options.seconds)
        is_over.set()
        for thread in threads:
            thread.join(2 * ANSWER_TIMEOUT)
        found = [f"{thread.name} does not end" for thread in threads if thread.is_alive()]
        found += defects(daemon, [*models, urgent], tally, samples, options, work)
        for text in found:
            print(f"DEFECT: {text}")
        print("DEFECT" if found else "holds")
        return 1 if found else 0
    finally:
        daemon.end()


if __name__ == "__main__":
    sys.exit(main())
