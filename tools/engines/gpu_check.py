"""Engines behind a daemon on a GPU: gpu_check.py FOLDER SECONDS TURNS. tools/engines/gpu_check.sh calls it, with an empty folder."""

import contextlib
import importlib.util
import json
import re
import socket
import statistics
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
CHAT = str(EXAMPLES / "process/transformers_chat.py")
START = 300  # seconds that a program may take until it is ready
SLOW = 1.15  # a request whose median token takes so many times the usual one is slow as a whole
COUNTER = re.compile(r"reef_guest_(\w+)_total{.*class=\"(\w+)\",pid=\"(\d+)\".*} (\S+)")
# Counters of the engine and of the training that are printed for slow requests: how often and for how long the one
# holds and the other is held, times at which the one was busy without a sign of work, and the other's starvation reliefs.
COUNTS = ["rt holds", "rt held_seconds", "rt stalls", "be holds", "be held_seconds", "be delayed", "be starvation_reliefs"]
CONFIG = """[models]
processes = true
[rights."address 127.0.0.1"]
rt = true
"""
# The example of transformers, which notes when it has each token, as its loop does. A text is a line: the milliseconds between.
TIMED = """
import json
import sys
import time

sys.path.insert(0, {folder!r})
import reef.serve
import transformers_chat


class Timed(transformers_chat.Chat):
    def generate(self, request):
        moments, made = [], super().generate(request)
        try:
            for piece in made:
                moments.append(time.monotonic())
                yield piece
        finally:
            made.close()
            between = [1e3 * (after - before) for before, after in zip(moments, moments[1:])]
            with open({file!r}, "a") as file:
                print(json.dumps([request.class_name, between]), file=file)


reef.serve.run(Timed(transformers_chat.SIZES))
"""
# A limit, so that the daemon starts it by `reef exec` with its class.
TOML = """engine = "{engine}"
[process]
command = {command}
pass_env = ["CUDA_VISIBLE_DEVICES", "HOME", "LD_LIBRARY_PATH", "PATH", "PYTHONPATH", "REEF_SHIM", "XDG_RUNTIME_DIR"]
memory = "16GiB"
"""


def has(*packages):
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    for name in missing:
        print(f"skipped: {name} is not installed")
    return not missing


class Program:
    """A program that writes "ready" as one of its lines."""

    def __init__(self, name, command):
        self.error, self.lines, self.ready = work / f"{name}.log", [], threading.Event()
        with open(self.error, "wb") as error:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=error, text=True)
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()
        if not self.ready.wait(START) or "ready\n" not in self.lines:
            self.end()
            raise SystemExit(f"{name} does not start: {self.error.read_text()[-2000:]}")

    def read(self):
        for line in self.process.stdout:
            self.lines.append(line)
            if line == "ready\n":
                self.ready.set()
        self.ready.set()

    def last(self):
        """Its last line, once it has ended."""
        code = self.process.wait(START)
        self.reader.join()
        if code:
            raise SystemExit(f"ended with {code}: {self.error.read_text()[-2000:]}")
        return self.lines[-1]

    def steps(self):
        """The number of training steps so far."""
        return int(self.lines[-1].split()[1])

    def end(self):
        self.process.kill()
        self.process.wait()


def put(name, engine, program, file=None):
    """Puts a model into the repository."""
    folder = work / "models" / name / "1"
    folder.mkdir(parents=True)
    command = json.dumps([sys.executable, str(program)])
    (folder.parent / "model.toml").write_text(TOML.format(engine=engine, command=command))
    if file:
        (folder / "model.onnx").write_bytes(file)


class Daemon(Program):
    """A daemon for guests that loads these models at its start."""

    def __init__(self, models):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{free.getsockname()[1]}"
        config = work / "reef.toml"
        config.write_text(CONFIG)
        flags = ["--config", str(config), "--http", self.address, "--repository", str(work / "models")]
        begun = time.monotonic()
        super().__init__("daemon", ["reef", "serve", "--guests", "--device", "cuda:0", *flags, "--load", ",".join(models)])
        self.log = self.error
        print(f"{', '.join(models)}: loaded in {time.monotonic() - begun:.1f} s", flush=True)

    def ask(self, path, body):
        """The answer to a real-time request."""
        headers = {"content-type": "application/json", "reef-class": "rt"}
        request = urllib.request.Request(f"http://{self.address}{path}", json.dumps(body).encode(), headers)
        try:
            return urllib.request.urlopen(request, timeout=START)
        except urllib.error.HTTPError as error:
            said = error.read().decode()
            raise SystemExit(f"{path}: {error.code} {said}\n{self.log.read_text()[-2000:]}") from None

    def end(self):
        """Has it end its programs as well."""
        self.process.terminate()
        self.process.wait()


def field(number, value):
    """A field of an ONNX file: a small number, or bytes of less than 16 KiB."""
    if isinstance(value, int):
        return bytes([number << 3, value])
    return bytes([number << 3 | 2, len(value) & 127 | 128, len(value) >> 7]) + value


def onnx_file():
    """A network with y = -x, and the same texts: REEF reads no texts."""

    def tensor(name, kind):
        size = field(1, field(2, b"n"))
        return field(1, name) + field(2, field(1, field(1, kind) + field(2, size)))

    graph = field(2, b"graph")
    for given, made, operator, kind in [(b"x", b"y", b"Neg", 1), (b"text", b"same", b"Identity", 8)]:
        graph += field(1, field(1, given) + field(2, made) + field(4, operator))
        graph += field(11, tensor(given, kind)) + field(12, tensor(made, kind))
    return field(1, 8) + field(7, graph) + field(8, field(1, b"") + field(2, 13))


def check_onnx(daemon):
    x = {"name": "x", "datatype": "FP32", "shape": [3], "data": [1, -2, 3]}
    text = {"name": "text", "datatype": "BYTES", "shape": [2], "data": ["a", "ä"]}
    said = json.load(daemon.ask("/v2/models/onnx/infer", {"inputs": [x, text]}))
    found = {output["name"]: output["data"] for output in said["outputs"]}
    assert found == {"y": [-1, 2, -3], "same": ["a", "ä"]}, said
    reasons = [line for line in daemon.log.read_text().splitlines() if "onnx" in line]
    print("onnx: right; the daemon's log:", *reasons, sep="\n    ", flush=True)


def check_chat(daemon):
    messages = [{"role": "user", "content": "What is a gate?"}]
    said = json.load(daemon.ask("/v1/chat/completions", {"model": "chat", "messages": messages, "max_tokens": 8, "seed": 1}))
    assert said["usage"]["prompt_tokens"] > len(messages[0]["content"]), said
    print(f"chat: {said['choices'][0]['message']['content']!r}", flush=True)


def timed_chat():
    """The file of a program that is the example and times its tokens."""
    program = work / "timed_chat.py"
    program.write_text(TIMED.format(folder=str(EXAMPLES / "process"), file=str(work / "tokens")))
    return program


class OwnTimes:
    """Latencies of tokens of real-time requests by the program's own clock, from now on."""

    def __init__(self):
        self.file = work / "tokens"
        self.begin = self.file.stat().st_size if self.file.exists() else 0

    def read(self):
        with open(self.file) as file:
            file.seek(self.begin)
            texts = [json.loads(line) for line in file]
        times = sorted(time for class_name, between in texts if class_name == "rt" for time in between)
        p50, p99 = (times[int(part * len(times))] for part in (0.5, 0.99))
        return {"p50_ms": p50, "p99_ms": p99, "tokens": len(times)}


def counters(daemon, training):
    """Counters of all real-time guests together, and of the training."""
    found = dict.fromkeys(COUNTS, 0.0)
    with urllib.request.urlopen(f"http://{daemon.address}/metrics", timeout=START) as said:
        for name, class_name, pid, value in COUNTER.findall(said.read().decode()):
            is_meant = class_name == "rt" or (training and int(pid) == training.process.pid)
            if is_meant and f"{class_name} {name}" in found:
                found[f"{class_name} {name}"] += float(value)
    return found


def of_engine(daemon, seconds, training=None):
    """Latencies of tokens of real-time requests, one after the other, and each request with what was counted meanwhile."""
    times, requests, seed, until = [], [], 0, time.monotonic() + seconds
    before = counters(daemon, training)
    while not times or time.monotonic() < until:
        seed += 1
        body = {"model": "chat", "prompt": "a" * 64, "max_tokens": 64, "temperature": 1.0, "seed": seed, "stream": True}
        moments = []
        for line in daemon.ask("/v1/completions", body):
            if line.startswith(b"data: {"):
                event = json.loads(line[len("data: ") :])
                if event["choices"][0]["text"]:
                    moments.append(time.monotonic())
        own = [1e3 * (later - earlier) for earlier, later in zip(moments, moments[1:])]
        time.sleep(0.05)
        after = counters(daemon, training)  # once the hold has ended
        if own:
            counted = {name: after[name] - before[name] for name in COUNTS}
            requests.append({"token_ms": statistics.median(own), "tokens": len(own), **counted})
        times, before = times + own, after
    times.sort()
    p50, p99 = (times[int(part * len(times))] for part in (0.5, 0.99))
    return {"p50_ms": p50, "p99_ms": p99, "tokens": len(times), "requests": requests}


def show_slow(requests):
    """Prints the requests of which most tokens are slow, next to the median of the others."""
    usual = statistics.median(request["token_ms"] for request in requests)
    is_slow = lambda request: request["token_ms"] > SLOW * usual
    others = [request for request in requests if not is_slow(request)]
    print(f"\n{len(requests) - len(others)} of {len(requests)} requests have a median token above {SLOW} times the usual one\n")
    print("| request |", " | ".join(requests[0]), "|\n|---|" + "--:|" * len(requests[0]))
    rows = [("others, median", {name: statistics.median(request[name] for request in others) for name in others[0]})]
    rows += [(at, request) for at, request in enumerate(requests) if is_slow(request)]
    for name, request in rows[:21]:
        print(f"| {name} |", " | ".join(f"{value:.4g}" for value in request.values()), "|", flush=True)


def loop_of(seconds):
    """The same model under `reef exec`, which has begun to decode: its last line has the latencies of tokens."""
    command = ["reef", "exec", "--class", "rt", "--strict", "--", sys.executable, CHAT, "--loop", str(seconds)]
    return Program("loop", command)


def row(name, measure, training=None):
    """Measures, and counts the steps of a training meanwhile."""
    begun, steps = time.monotonic(), training.steps() if training else 0
    found = measure()
    rate = f"{(training.steps() - steps) / (time.monotonic() - begun):.1f}" if training else "–"
    print(f"| {name} | {found['p50_ms']:.3f} | {found['p99_ms']:.3f} | {found['tokens']} | {rate} |", flush=True)
    return found


def engine_row(name, daemon, seconds, training=None):
    """Measures the engine by its client's clock and by its own. Returns both."""
    own = OwnTimes()
    found = row(name, lambda: of_engine(daemon, seconds, training), training)
    return found, row(f"{name}, by its own clock", own.read)


def measure(daemon, seconds, turns, ends):
    print("\n| | token p50, ms | token p99, ms | tokens | training steps/s |\n|---|--:|--:|--:|--:|")
    alone, _ = engine_row("engine", daemon, seconds)
    loop = loop_of(seconds)
    row("`reef exec --class rt`", lambda: json.loads(loop.last()))
    if not has("torchvision"):
        return
    command = ["reef", "exec", "--class", "be", "--strict", "--", sys.executable, str(EXAMPLES / "pytorch/train.py")]
    training = Program("training", command)
    ends.callback(training.end)
    while not training.lines[-1].startswith("step"):
        time.sleep(0.1)
    ratios, requests = [], []
    for _ in range(turns):
        engine, own = engine_row("engine, next to training", daemon, seconds, training)
        loop = loop_of(seconds)
        plain = row("`reef exec --class rt`, next to training", lambda: json.loads(loop.last()), training)
        ratios.append([times["p99_ms"] / plain["p99_ms"] for times in (own, engine)])
        requests += engine["requests"]
    print("\nnext to training, p99 of the engine as a multiple of that of `reef exec --class rt`; median, least and greatest:")
    for clock, found in zip(("by the clocks of both programs", "by that of the engine's client"), zip(*ratios)):
        print(f"    {statistics.median(found):.2f} ({min(found):.2f} to {max(found):.2f}) {clock}")
    print("\nengine, alone:")
    show_slow(alone["requests"])
    print("\nengine, next to training:")
    show_slow(requests)


def main():
    has_onnx, has_chat = has("numpy", "onnxruntime"), has("torch", "transformers")
    if not has_onnx and not has_chat:
        return
    with contextlib.ExitStack() as ends:
        if has_onnx:
            put("onnx", "auto", EXAMPLES / "process/onnxruntime_engine.py", onnx_file())
        if has_chat:
            put("chat", "process", timed_chat())
        daemon = Daemon([path.name for path in (work / "models").iterdir()])
        ends.callback(daemon.end)
        if has_onnx:
            check_onnx(daemon)
        if has_chat:
            check_chat(daemon)
            measure(daemon, float(sys.argv[2]), int(sys.argv[3]), ends)


if __name__ == "__main__":
    work = Path(sys.argv[1])
    main()
