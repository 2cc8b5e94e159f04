#!/usr/bin/env python3
"""Starts of a model on the GPU: by its own program, and from the folder that the daemon has written of its process.

    tools/engines/warm_start.py FOLDER [--gib 4 | --language-model] [--rounds 2]

FOLDER has `reef` with CUDA and libreef_cuda_shim.so, and perhaps the package in python/reef. $PYTHON (python3) has torch. The model has
so many GiB of weights, which it makes itself, or is the language model of examples/process, which needs transformers and answers with
16 tokens. Each start ends with a right answer. Prints the time until the process was ready, by the
daemon's clock, and until the answer. Fails if an answer is wrong, or if a start is not from the folder. Without CRIU 4, root or ptrace
it says "skipped" with the reason, and ends with 0.
"""
import argparse
import http.client
import json
import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "interpose"))
from criu import missing  # noqa: E402

TIMEOUT = 300  # seconds for each step
PROGRAM = """
import os

import reef.serve
import torch


class Scale(reef.serve.Model):
    inputs = {"x": float}
    outputs = {"y": float, "process": float}

    def load(self, device):
        numbers = int(float(os.environ["GIB"]) * (1 << 28))
        self.weights = torch.full((numbers,), 3.0, device="cuda")

    def infer(self, request):
        x = request["x"]
        return {"y": x * self.weights[-1].item(), "process": 0 * x + os.getpid()}


reef.serve.run(Scale)
"""
LANGUAGE_MODEL = """
import os
import sys

sys.path.insert(0, {examples!r})
import reef.serve
import static_decoder
import transformers_chat


class Scale(reef.serve.Model):
    inputs = {{"x": float}}
    outputs = {{"y": float, "process": float}}

    def load(self, device):
        self.decoder = static_decoder.Decoder(transformers_chat.SIZES, transformers_chat.END + 1, device)

    def infer(self, request):
        x, text = request["x"], list(range(8))
        while len(text) < 24:
            scores = self.decoder.step(text[-1]) if len(text) > 8 else self.decoder.read(text)
            text.append(max(range(len(scores)), key=lambda token: scores[token]))
        return {{"y": 0 * x + sum(at * token for at, token in enumerate(text)), "process": 0 * x + os.getpid()}}


reef.serve.run(Scale)
"""
NAMES = ["PATH", "HOME", "LD_LIBRARY_PATH", "PYTHONPATH", "REEF_SHIM", "XDG_RUNTIME_DIR"]


class Connection(http.client.HTTPConnection):
    """A connection to the daemon's socket."""

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(TIMEOUT)
        self.sock.connect(self.host)


class Daemon:
    """`reef serve` with the model, whose log is a file."""

    def __init__(self, folder, work):
        self.socket, self.log_file = work / "sockets/http.sock", work / "log"
        settings = ["models.processes=true", f"models.checkpoints={json.dumps(str(work / 'saved'))}", "models.checkpoints_mib=200000"]
        settings += [f"times.request_ms={TIMEOUT * 1000}"]
        command = [str(folder / "reef"), "serve", "--device", "cuda:0", "--guests", "--repository", str(work / "models")]
        command += ["--socket-dir", str(work / "sockets"), *(word for setting in settings for word in ("--set", setting))]
        with open(self.log_file, "w") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, "REEF_LOG": "info"})
        self.until(self.listens, "the daemon does not start")

    def listens(self):
        connection = Connection(str(self.socket))
        try:
            connection.connect()
        except OSError:
            return False
        finally:
            connection.close()
        return True

    def log(self):
        return re.sub(r"\x1b\[[0-9;]*m", "", self.log_file.read_text(errors="replace"))

    def until(self, condition, otherwise):
        end = time.monotonic() + TIMEOUT
        while not condition():
            if self.process.poll() is not None or time.monotonic() > end:
                sys.exit(f"{otherwise}: {self.log()[-3000:]}")
            time.sleep(0.05)

    def ask(self, method, path, body=None):
        connection = Connection(str(self.socket))
        headers = {"host": "localhost", "content-type": "application/json"}
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        answer = connection.getresponse()
        said = answer.read().decode()
        connection.close()
        if answer.status != 200:
            sys.exit(f"{method} {path}: {answer.status} {said[:300]}: {self.log()[-3000:]}")
        return said

    def load(self):
        """Loads the model. Returns the seconds until it was ready by kind of start, those until the answer, this, and the process."""
        begun = time.monotonic()
        self.ask("POST", "/v2/repository/models/scale/load", {})
        inputs = [{"name": "x", "datatype": "FP32", "shape": [1], "data": [2.0]}]
        outputs = json.loads(self.ask("POST", "/v2/models/scale/infer", {"inputs": inputs}))["outputs"]
        took = time.monotonic() - begun
        values = {output["name"]: output["data"][0] for output in outputs}
        line = re.compile(r'reef_model_start_seconds_total{.*class="be".*kind="(\w+)".*} (\S+)')
        ready = {kind: float(seconds) for kind, seconds in line.findall(self.ask("GET", "/metrics"))}
        return ready, took, values["y"], int(values["process"])

    def unload(self, process):
        """Unloads the model, and waits for the end of its process: its number must be free."""
        self.ask("POST", "/v2/repository/models/scale/unload", {})
        self.until(lambda: not os.path.exists(f"/proc/{process}"), "the process does not end")


def put(models, program, gib):
    place = models / "scale/1"
    place.mkdir(parents=True)
    (place / "model.py").write_text(program)
    command = json.dumps([os.environ.get("PYTHON", "python3"), "model.py"])
    names = json.dumps([name for name in NAMES if name in os.environ])
    (models / "scale/model.toml").write_text(
        f'engine = "process"\ninstances = {{ rt = 0, be = 1 }}\n[process]\ncommand = {command}\npass_env = {names}\n'
        f'env = {{ GIB = "{gib}" }}\nload_ms = {TIMEOUT * 1000}\nresidency = "on-demand"\nidle = "1s"\n'
    )


def measure(daemon, name, expected, rounds):
    own, took, answer, process = daemon.load()
    if list(own) != ["cold"]:
        sys.exit(f"the first start must be of its program, got {own}")
    if answer != (expected or answer):
        sys.exit(f"the answer must be {expected}, got {answer}")
    begun = time.monotonic()
    daemon.until(lambda: re.search("the process is (not )?written", daemon.log()), "the process stays on the GPU")
    if "the process is not written" in daemon.log():
        sys.exit(daemon.log()[-3000:])
    print(f"note: {name}: own start: ready in {own['cold']:.2f} s, answer in {took:.2f} s", flush=True)
    print(f"note: {name}: idle, away and written {time.monotonic() - begun:.1f} s later", flush=True)
    for _ in range(rounds):
        daemon.unload(process)
        warm, took, again, process = daemon.load()
        if list(warm) != ["warm"]:
            sys.exit(f"the start must be from the folder, got {warm}: {daemon.log()[-3000:]}")
        if again != answer:
            sys.exit(f"the answer must be {answer} as before, got {again}")
        print(f"note: {name}: from the folder: ready in {warm['warm']:.2f} s, answer in {took:.2f} s", flush=True)


def main():
    say = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    say.add_argument("folder", type=pathlib.Path)
    say.add_argument("--gib", type=float, default=4)
    say.add_argument("--language-model", action="store_true", help="of 1.1 B parameters, with CUDA graphs")
    say.add_argument("--rounds", type=int, default=2, help="starts from the folder")
    options = say.parse_args()
    if reason := missing():
        print(f"skipped: {reason}")
        return
    folder = options.folder.resolve()
    package = folder / "python"
    if not (package / "reef").is_dir():
        package = pathlib.Path(__file__).resolve().parents[2] / "crates/reef-python/python"
    os.umask(0o022)  # the daemon starts no program that others could replace
    with tempfile.TemporaryDirectory(prefix="reef-warm-") as place:
        work = pathlib.Path(place)
        os.environ.update(
            PYTHONPATH=str(package), REEF_SHIM=str(folder / "libreef_cuda_shim.so"), XDG_RUNTIME_DIR=place, PATH=f"{folder}:{os.environ['PATH']}"
        )
        program, name, expected = PROGRAM, f"{options.gib:g} GiB", 6  # 2 times 3
        if options.language_model:
            examples = str(pathlib.Path(__file__).resolve().parents[2] / "examples/process")
            program, name, expected = LANGUAGE_MODEL.format(examples=examples), "language model", None
        put(work / "models", program, options.gib)
        daemon = Daemon(folder, work)
        try:
            measure(daemon, name, expected, options.rounds)
        finally:
            daemon.process.terminate()
            daemon.process.wait()


main()
