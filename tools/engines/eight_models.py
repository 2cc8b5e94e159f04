#!/usr/bin/env python3
"""Models that don't fit on the GPU together: the time to the first answer of one that is away, and what real-time requests feel.

    tools/engines/eight_models.py FOLDER [--models 8] [--gib 20] [--seconds 120] [--rate 0.5]

FOLDER has `reef` with CUDA and libreef_cuda_shim.so, and perhaps the package in python/reef. $PYTHON (python3) has torch. Starts
the daemon with so many models of so many GiB, `residency = "on-demand"`, and a real-time model that always stays. Then asks a model
at random at each turn, and the real-time one in a closed loop of a process of its own: alone first, then next to the others. Prints
states and host memory as it goes, then a table: requests, and how long each departure and each return took by the daemon's log, from its
begin. A return for which another model leaves begins together with that departure. Real-time requests count as during moves if they
overlap with one, and the slowest are listed with the moves around them. The sums of the steps come last: they have no start of the
process that moves. `--log FILE` keeps the log. Fails if an answer is wrong or a request is refused. 0.5 requests a second leave time for a
departure and a return; more queue up.
"""
import argparse
import datetime
import http.client
import json
import multiprocessing
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request

PORT = 8055
CONFIG = """[models]
processes = true
[times]
request_ms = 120000
[rights."address 127.0.0.1"]
rt = true
"""
PROGRAM = """
import os

import reef.serve
import torch


class Scale(reef.serve.Model):
    inputs = {"x": float}
    outputs = {"y": float}

    def load(self, device):
        numbers = int(float(os.environ["GIB"]) * (1 << 28))
        self.weights = torch.full((numbers,), float(self.name[1:]), device="cuda")

    def infer(self, request):
        return {"y": request["x"] * self.weights[-1].item()}


reef.serve.run(Scale)
"""


def model(folder, name, gib, more):
    place = folder / name / "1"
    place.mkdir(parents=True)
    (place / "model.py").write_text(PROGRAM)
    command = json.dumps([os.environ.get("PYTHON", "python3"), "model.py"])
    names = [name for name in ("PATH", "HOME", "LD_LIBRARY_PATH", "PYTHONPATH", "REEF_SHIM", "XDG_RUNTIME_DIR") if name in os.environ]
    (folder / name / "model.toml").write_text(
        f'engine = "process"\n{more}\n[process]\ncommand = {command}\npass_env = {json.dumps(names)}\n'
        f'env = {{ GIB = "{gib}" }}\nload_ms = 120000\nmemory = "{int(gib) + 1}GiB"\n'
        + ("" if "be = 0" in more else 'residency = "on-demand"\nidle = "1h"\n')
    )


def client():
    return http.client.HTTPConnection("127.0.0.1", PORT, timeout=120)


def ask(connection, name, value, is_rt=False):
    """Seconds until the right answer."""
    body = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1], "data": [value]}]}
    headers = {"content-type": "application/json", "reef-class": "rt" if is_rt else "be"}
    begun = time.monotonic()
    connection.request("POST", f"/v2/models/{name}/infer", json.dumps(body), headers)
    answer = connection.getresponse()
    said = answer.read()
    if answer.status != 200:
        raise SystemExit(f"{name}: {answer.status} {said[:300]!r}")
    got = json.loads(said)["outputs"][0]["data"][0]
    took = time.monotonic() - begun
    if got != value * float(name[1:]):
        raise SystemExit(f"{name}: {value} times {name[1:]} must be {value * float(name[1:])}, got {got}")
    return took


def metrics():
    with urllib.request.urlopen(f"http://127.0.0.1:{PORT}/metrics", timeout=30) as answer:
        return answer.read().decode().splitlines()


def states():
    lines = metrics()
    shown = [line for line in lines if line.startswith("reef_model_residency{") and line.endswith(" 1")]
    return {part("model", line): part("state", line) for line in shown}


def part(label, line):
    return line.split(f'{label}="', 1)[1].split('"', 1)[0]


def available():
    with open("/proc/meminfo") as file:
        return next(int(line.split()[1]) / (1 << 20) for line in file if line.startswith("MemAvailable:"))


# Lines of the daemon's log about moves.
MOVES = {"departures": "the process has left the GPU", "returns": "the process is back on the GPU"}
SECONDS = {"ns": 1e-9, "µs": 1e-6, "ms": 1e-3, "s": 1.0}


def moves(log, from_byte):
    """Departures and returns that the log has from this byte on, each as (begin, end, model), in seconds since 1970."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", log.read_bytes()[from_byte:].decode(errors="replace"))
    all = {}
    for what, said in MOVES.items():
        found = re.findall(rf"(?m)^(\d{{4}}-\S+)Z .*{said}.*? model=(\S+).*? time=([0-9.]+)(ns|µs|ms|s)\b", text)
        times = [(at_end, model, float(number) * SECONDS[unit]) for at_end, model, number, unit in found]
        ends = [datetime.datetime.fromisoformat(f"{at_end}+00:00").timestamp() for at_end, _, _ in times]
        all[what] = [(end - took, end, model) for end, (_, model, took) in zip(ends, times)]
    return all


def print_slowest(requests, all):
    """Prints the slowest real-time requests, and how long each move around them had been under way."""
    print("slowest real-time requests:")
    for begin, took in sorted(requests, key=lambda one: -one[1])[:8]:
        around = [
            f"{begin - start:.2f} s after the begin of a {what.removesuffix('s')} of {model} ({end - start:.2f} s)"
            for what, some in all.items()
            for start, end, model in some
            if start < begin + took and begin < end
        ]
        print(f"  {took * 1000:.1f} ms: {', '.join(around) or 'between moves'}")


def at(all, share):
    ordered = sorted(all)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("nan")


def loop(name, end, to):
    """Asks the real-time model until this time. Sends the begin of each request and its seconds."""
    connection, requests = client(), []
    while time.time() < end:
        begin = time.time()
        requests.append((begin, ask(connection, name, 2.0, is_rt=True)))
    to.send(requests)


class Loop:
    """Real-time requests by a process of its own, so that no other work of this one delays them."""

    def __init__(self, name, seconds):
        self.results, to = multiprocessing.Pipe(duplex=False)
        self.process = multiprocessing.get_context("fork").Process(target=loop, args=(name, time.time() + seconds, to))
        self.process.start()
        to.close()

    def end(self):
        try:
            requests = self.results.recv()
        except EOFError:
            sys.exit("the real-time requests have ended early")
        self.process.join()
        return requests


def main():
    say = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    say.add_argument("folder", type=pathlib.Path)
    say.add_argument("--models", type=int, default=8)
    say.add_argument("--gib", type=float, default=20)
    say.add_argument("--seconds", type=float, default=120)
    say.add_argument("--rate", type=float, default=0.5, help="requests a second to models at random")
    say.add_argument("--log", type=pathlib.Path, help="file for the daemon's log")
    options = say.parse_args()
    folder = options.folder.resolve()
    package = folder / "python"
    if not (package / "reef").is_dir():
        package = pathlib.Path(__file__).resolve().parents[2] / "crates/reef-python/python"
    work = tempfile.TemporaryDirectory(prefix="reef-eight-")
    os.umask(0o022)
    os.environ.update(
        PYTHONPATH=str(package), REEF_SHIM=str(folder / "libreef_cuda_shim.so"), XDG_RUNTIME_DIR=work.name, PATH=f"{folder}:{os.environ['PATH']}"
    )
    models = pathlib.Path(work.name) / "models"
    names = [f"m{number + 1}" for number in range(options.models)]
    for name in names:
        model(models, name, options.gib, "instances = { rt = 0, be = 1 }")
    model(models, "m99", 1, "instances = { rt = 1, be = 0 }")
    config = pathlib.Path(work.name) / "config.toml"
    config.write_text(CONFIG)
    command = [str(folder / "reef"), "serve", "--config", str(config), "--device", "cuda:0", "--guests", "--repository", str(models)]
    command += ["--load", "*", "--http", f"127.0.0.1:{PORT}"]
    begun, host = time.monotonic(), available()
    log = open(pathlib.Path(work.name) / "log", "w")
    daemon = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        while True:
            if daemon.poll() is not None or time.monotonic() - begun > 300:
                sys.exit(f"the daemon did not start: {(pathlib.Path(work.name) / 'log').read_text()[-3000:]}")
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{PORT}/v2/health/ready", timeout=5)
                break
            except OSError:
                time.sleep(0.5)
        print(f"ready after {time.monotonic() - begun:.1f} s: {states()}", flush=True)
        away, there = [], []
        alone = Loop("m99", 10).end()
        log_path = pathlib.Path(work.name) / "log"
        logged = log_path.stat().st_size
        chance, end = random.Random(1), time.monotonic() + options.seconds
        real_time = Loop("m99", options.seconds)
        connection = client()
        least = host
        while time.monotonic() < end:
            began, name = time.monotonic(), chance.choice(names)
            was = states().get(name)
            took = ask(connection, name, 2.0)
            (away if was == "away" else there).append(took)
            least = min(least, available())
            print(f"{name} {was} {took:.3f} s, host {host - least:.1f} GiB more at most", flush=True)
            time.sleep(max(0.0, 1 / options.rate - (time.monotonic() - began)))
        next_to_them, all_moves = real_time.end(), moves(log_path, logged)
        spans = [span for some in all_moves.values() for span in some]
        is_during = [any(start < begin + took and begin < end for start, end, _ in spans) for begin, took in next_to_them]
        print("requests | number | p50 s | p99 s | longest s")
        rows = [("to models that were away", away), ("to models on the GPU", there), ("real-time, alone", [took for _, took in alone])]
        rows += [("real-time, next to them", [took for _, took in next_to_them])]
        rows += [("real-time, during moves", [took for (_, took), during in zip(next_to_them, is_during) if during])]
        rows += [("real-time, between moves", [took for (_, took), during in zip(next_to_them, is_during) if not during])]
        rows += [(what, [end - start for start, end, _ in some]) for what, some in all_moves.items()]
        for what, all in rows:
            print(f"{what} | {len(all)} | {at(all, 0.5):.4f} | {at(all, 0.99):.4f} | {max(all, default=float('nan')):.4f}")
        print_slowest(next_to_them, all_moves)
        print("since the start of the daemon, all moves together:")
        print("\n".join(line for line in metrics() if line.startswith("reef_suspension")))
    finally:
        daemon.terminate()
        daemon.wait()
        if daemon.returncode:
            print((pathlib.Path(work.name) / "log").read_text()[-3000:])
        if options.log:
            shutil.copyfile(pathlib.Path(work.name) / "log", options.log)


main()
