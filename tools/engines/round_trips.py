#!/usr/bin/env python3
"""Round trips of empty requests to models that are programs: what the daemon and its sockets take, by class.

    tools/engines/round_trips.py [--reef FILE] [--count 10000] [--device cpu:0]

Starts a daemon with a model in C++ (examples/process/scale.cpp) and one in Python, each with a process for each class. Requests have an
input without elements, and follow each other on one connection: over HTTP and a UNIX socket by a client in C++
(round_trips.cpp), and over gRPC and a UNIX socket by tritonclient, if this Python has it. Prints microseconds. Needs a C++ compiler ($CXX, c++) and a
built `reef`. A machine that is idle otherwise: a round trip wakes the daemon's I/O thread, a worker, the program, the worker again, the I/O thread
and the client. Of a real-time one the worker is awake, and the program in C++ is: docs/internals/round-trip.md.
"""
import argparse
import importlib.util
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
START = 60  # seconds until the daemon has loaded both models
SETTINGS = ["models.processes=true", "limits.connects_per_second=0", "rights.owner={ rt = true, control = true }"]
PROGRAM = """
import reef.serve


class Same(reef.serve.Model):
    inputs = {"x": ("FP32", [-1])}
    outputs = {"y": ("FP32", [-1])}

    def infer(self, request):
        return {"y": request["x"]}


reef.serve.run(Same)
"""
BODY = json.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": [0], "data": []}]})


def compiled(source, program):
    compiler = os.environ.get("CXX", "c++")
    if shutil.which(compiler) is None:
        sys.exit(f"skipped: no {compiler}")
    subprocess.run([compiler, "-O2", "-std=c++17", "-o", program, source], check=True)


def put(folder, command):
    """A model's folder."""
    version = folder / "1"
    version.mkdir(parents=True)
    env = {"PYTHONPATH": str(ROOT / "crates/reef-python/python")}
    lines = ['engine = "process"', "instances = { rt = 1, be = 1 }", "[process]", f"command = {json.dumps(command)}"]
    lines += [f"env.{name} = {json.dumps(value)}" for name, value in env.items()]
    (folder / "model.toml").write_text("\n".join(lines) + "\n")
    return version


def is_ready(path):
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(5)
            connection.connect(str(path))
            connection.sendall(b"GET /v2/health/ready HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
            return connection.recv(64).startswith(b"HTTP/1.1 200")
    except OSError:
        return False


def by_http(work, model, class_name, count):
    command = [work / "client", work / "reef/http.sock", f"/v2/models/{model}/infer", class_name, str(count)]
    done = subprocess.run(command, input=BODY, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    return [float(number) for number in done.stdout.split()]


def by_grpc(work, model, class_name, count):
    import numpy
    import tritonclient.grpc as grpc

    client = grpc.InferenceServerClient(f"unix://{work / 'reef/grpc.sock'}")
    tensor = grpc.InferInput("x", [0], "FP32")
    tensor.set_data_from_numpy(numpy.zeros(0, numpy.float32))
    times, headers = [], {"reef-class": class_name}
    for _ in range(count):
        begin = time.perf_counter()
        client.infer(model, [tensor], headers=headers)
        times.append(1e6 * (time.perf_counter() - begin))
    client.close()
    times.sort()
    return times[len(times) // 2], times[len(times) * 99 // 100], times[-1]


def main():
    say = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    say.add_argument("--reef", type=pathlib.Path, default=ROOT / "target/release/reef")
    say.add_argument("--count", type=int, default=10000, help="requests of each row")
    say.add_argument("--device", default="cpu:0")
    options = say.parse_args()
    os.umask(0o022)  # the daemon starts no program that others could replace
    with tempfile.TemporaryDirectory(prefix="reef-trips-") as folder:
        work = pathlib.Path(folder)
        compiled(ROOT / "tools/engines/round_trips.cpp", work / "client")
        compiled(ROOT / "examples/process/scale.cpp", put(work / "models/native", ["./scale"]) / "scale")
        (put(work / "models/python", [sys.executable, "model.py"]) / "model.py").write_text(PROGRAM)
        command = [options.reef.resolve(), "serve", "--device", options.device, "--socket-dir", work / "reef"]
        command += ["--repository", work / "models", "--load", "native,python"]
        command += [flag for setting in SETTINGS for flag in ("--set", setting)]
        with open(work / "log", "wb") as log:
            daemon = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            end = time.monotonic() + START
            while not is_ready(work / "reef/http.sock"):
                if daemon.poll() is not None or time.monotonic() > end:
                    sys.exit((work / "log").read_text()[-3000:])
                time.sleep(0.1)
            ways = [("HTTP, client in C++", by_http, options.count)]
            if importlib.util.find_spec("tritonclient"):
                ways.append(("gRPC, tritonclient", by_grpc, max(1, options.count // 10)))
            else:
                print("skipped: tritonclient is not installed")
            print("| way | model | class | p50, µs | p99 | longest |\n|---|---|---|--:|--:|--:|")
            for name, way, count in ways:
                for model in ("native", "python"):
                    for class_name in ("rt", "be"):
                        p50, p99, longest = way(work, model, class_name, count)
                        print(f"| {name} | {model} | {class_name} | {p50:.0f} | {p99:.0f} | {longest:.0f} |", flush=True)
        finally:
            daemon.terminate()
            daemon.wait()


main()
