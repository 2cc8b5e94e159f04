#!/usr/bin/env python3
"""The table of `tools/load.sh`, which says what it is."""

import argparse
import multiprocessing
import os
import platform
import re
import signal
import subprocess
import sys
import tempfile
import time

import client
import network
import numpy as np
from results import Results

HERE = os.path.dirname(os.path.abspath(__file__))
OWN = 4  # cores for the generator, where there are enough


def cores():
    """Cores of the servers, and of the generator: its own if there are eight or more."""
    have = sorted(os.sched_getaffinity(0))
    return (have[:-OWN], have[-OWN:]) if len(have) >= 2 * OWN else (have, have)


def start(command, on):
    """Starts a server on these cores; returns it and its address, once it says that."""
    pin = lambda: os.sched_setaffinity(0, on)
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, preexec_fn=pin)
    address, wanted = None, "ready" if command[0] != sys.executable else "http"
    for line in server.stdout:
        said = line.split()
        if said and said[0] == "http":
            address = said[1]
        if said and said[0] == wanted:
            return server, address
    sys.exit(f"{command[0]}: it ended before it was ready")


def reef(options, folder, on):
    settings = {
        "rights.others": "{ rt = true }",
        "limits.connects_per_second": "0",
        "rt.reserve": str(options.reserve),
    }
    sets = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    serve = ["serve", "--socket-dir", folder, "--http", "127.0.0.1:0", "--load", "net"]
    place = ["--repository", os.path.join(folder, "models"), "--device", f"cpu:0?units={len(on)}"]
    return start([options.reef, *serve, *place, *sets], on)


def rival(model, on):
    return start([sys.executable, os.path.join(HERE, "rival.py"), model, str(len(on))], on)


def alone(address):
    """Seconds of a request with nothing next to it: the median of a few."""
    request, one, times = client.inference(address, 1), client.Client(address), []
    for _ in range(12):
        begin = time.monotonic()
        one.ask(request)
        times.append(time.monotonic() - begin)
    return sorted(times[2:])[5]


def measure(name, address, rate, clients, seconds):
    """Measures one load; returns its row of the table."""
    count, lost = multiprocessing.Value("q", 0), multiprocessing.Value("q", 0)
    args = (address, seconds + 1, clients, count, lost)
    neighbour = multiprocessing.Process(target=client.closed, args=args)
    neighbour.start()
    time.sleep(0.5)
    times, failed = client.opened(address, seconds, rate)
    neighbour.join()
    if not times:
        sys.exit(f"{name}: none of {failed} requests was answered")
    at = lambda share: 1e3 * float(np.quantile(times, share))
    p999 = f"{at(0.999):.2f}" if len(times) >= 5000 else "–"
    figures = f"{at(0.5):.2f} | {at(0.99):.2f} | {p999} | {1e3 * max(times):.2f}"
    be = f"{count.value / (seconds + 1):.1f}" if clients else "–"
    return f"| {name} | {rate:.1f} | {len(times)} | {clients} | {figures} | {be} | {failed + lost.value} |"


def model_of(options, folder):
    """The model file, in the repository of the daemon."""
    os.makedirs(os.path.join(folder, "models"))
    model = os.path.join(folder, "models", "net.onnx")
    if options.model:
        with open(options.model, "rb") as source, open(model, "wb") as file:
            file.write(source.read())
    else:
        network.write(model, options.network, options.size)
    return model


def machine(options, on, own):
    """What the figures are of, in two lines."""
    import onnxruntime

    text = open("/proc/cpuinfo").read()
    name = re.search(r"model name\s*: (.*)", text)
    cpu = name.group(1) if name else platform.machine()
    shared = "its own" if set(on).isdisjoint(own) else "the same"
    what = options.model or f"{options.network}, {options.size} x {options.size}"
    return [
        f"{cpu}; servers on {len(on)} cores, the generator on {len(own)} ({shared}); reef {built(options)}",
        f"{what}; ONNX Runtime {onnxruntime.__version__}, Python {platform.python_version()}; {options.seconds} s a row",
    ]


def built(options):
    """The commit of the program, if serve_build.sh made it."""
    try:
        return open(os.path.join(os.path.dirname(options.reef), "commit")).read().strip()
    except OSError:
        return "of no known commit"


def arguments():
    say = argparse.ArgumentParser(prog="tools/load.sh", epilog="Exit codes: 0 done, 1 failed, 3 rows wait for the next call.")
    say.add_argument("-b", "--build", help="the folder that serve_build.sh made")
    say.add_argument("--reef", default="target/release/reef", help="the program, without such a folder")
    say.add_argument("-o", "--out", default="target/load_results", help="folder for load.md; its rows are kept")
    say.add_argument("-m", "--minutes", type=float, default=60.0, help="no row begins after this long")
    say.add_argument("--model", help="an ONNX file with one input and one output [default: one that is made]")
    say.add_argument("--network", default="resnet50", choices=network.LAYERS)
    say.add_argument("--size", type=int, default=224)
    say.add_argument("--seconds", type=float, default=30.0, help="of each row")
    say.add_argument("--turns", type=int, default=2, help="of both servers")
    say.add_argument("--shares", default="0.1,0.3,0.5", help="real-time load, as parts of what the rival could do alone")
    say.add_argument("--clients", type=int, default=4, help="best-effort clients in the rows that have some")
    say.add_argument("--reserve", type=float, default=0.05, help="rt.reserve of the daemon")
    options = say.parse_args()
    if options.build:
        options.reef = os.path.join(options.build, "reef")
    return options


def main():
    options, began = arguments(), time.monotonic()
    on, own = cores()
    os.sched_setaffinity(0, own)
    results = Results(options.out, machine(options, on, own))
    print(f"load average {os.getloadavg()[0]:.1f}", file=sys.stderr)
    with tempfile.TemporaryDirectory(prefix="reef-load-") as folder:
        is_done = compare(options, folder, on, results, began + 60 * options.minutes)
    results.write()
    sys.exit(0 if is_done else 3)


def compare(options, folder, on, results, end):
    """Measures what is missing; returns whether that is all now."""
    model = model_of(options, folder)
    servers = {"ONNX Runtime": lambda: rival(model, on), "reef": lambda: reef(options, folder, on)}
    shares = [float(share) for share in options.shares.split(",")]
    loads = [(share, clients) for share in shares for clients in (0, options.clients)]
    for turn in range(options.turns):
        for name, begin in servers.items():
            missing = [load for load in loads if not results.has(turn, name, *load)]
            if not missing:
                continue
            if time.monotonic() > end:
                return False
            server, address = begin()
            try:
                results.outputs[name] = client.output(address).tolist()
                results.most = results.most or 1 / alone(address)  # the rival comes first
                for share, clients in missing:
                    if time.monotonic() > end:
                        return False
                    row = measure(name, address, share * results.most, clients, options.seconds)
                    results.add(turn, name, share, clients, row)
            finally:
                server.send_signal(signal.SIGTERM)
                server.wait()
    check(results)
    return True


def check(results):
    """Both servers must compute the same."""
    one, other = map(np.array, results.outputs.values())
    apart = float(np.abs(one - other).max() / np.abs(one).max())
    results.note = f"outputs of both differ by {apart:.1e} of the largest"
    print(f"\n{results.note}")
    if not apart < 1e-3:
        sys.exit("they don't compute the same")


main()
