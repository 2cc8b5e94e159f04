#!/usr/bin/env python3
"""Long kernels in slices, and stopped, with a process each: a best-effort program, and a real-time one that sends a small kernel
at random times.

    tools/variants/processes.py FOLDER [--seconds 2.5] [--rate 100] [--only NAME...] [--ways WAY...] [--mps] [--low]
                             [--launches N] [--sanitizer TOOL] [--out FILE]

FOLDER has libreef_cuda_shim.so and the program `registry` (tools/interpose/build.sh). Needs nvcc; PyTorch and Triton for three of
the programs. For each best-effort program: its time alone; next to requests with gates alone, with slices, and with slices that
are stopped; latencies of the requests; and whether the results of a number of launches are the same bits, held at random too. Ways
are none, gates, slices, stops and bits; --mps has all of them under MPS, which it starts, and --low gives the best-effort program
MPS's lower priority. --launches is the number of launches whose bits are compared, and --sanitizer runs the best-effort program of
that comparison that is held at random under a tool of compute-sanitizer.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
LIMIT = 150  # seconds of one program


class Daemon:
    """A registry of guests, which holds best-effort programs at random with a seed."""

    def __init__(self, folder, seed=None):
        self.socket = os.path.join(tempfile.mkdtemp(), "guests.sock")
        # Held for 0.1 to 0.6 ms at a time, so that kernels are stopped often.
        command = [os.path.join(folder, "registry"), self.socket] + ([str(seed), "0", "600"] if seed else [])
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(50):
            if os.path.exists(self.socket):
                return
            time.sleep(0.1)
        raise SystemExit("no registry")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(10)


def start(command, variables):
    """Starts a program, and waits until it has begun its work."""
    environment = {**os.environ, **variables, "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(
        ["timeout", str(LIMIT), *command], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    for line in process.stdout:
        if line.startswith("begin"):
            return process
    sys.exit(f"{command}: {process.stderr.read()[-2000:]}")


def end(process):
    """What a program says at its end, by name."""
    out, errors = process.communicate()
    ends = [line for line in out.splitlines() if line.startswith("end ")]
    last = ends[-1] if ends else out[-200:]
    if process.returncode or not ends:
        return {"error": (errors or last)[-300:] or f"code {process.returncode}"}
    words = last.split()[1:]
    return dict(zip(words[::2], words[1::2]))


def guest(args, daemon, kind, slices="0", report=None):
    variables = {"LD_PRELOAD": os.path.join(args.folder, "libreef_cuda_shim.so"), "REEF_GUESTS": daemon.socket}
    variables |= {"REEF_CLASS": kind, "REEF_SLICES": slices}
    return variables | ({"REEF_EXPLAIN": report} if report else {})


def report_of(path):
    text = open(path).read() if os.path.exists(path) else ""
    return [line.strip() for line in text.splitlines() if re.match(r"\s+(long kernel|not scheduled|guest)", line)]


def colocated(args, say, name, command, rate, label, slices):
    """Requests next to the program. Tells whether its kernels stay whole because the driver compiles them differently."""
    rt = [os.path.join(args.built, "rt"), str(args.rate), str(args.seconds)]
    report = os.path.join(tempfile.mkdtemp(), "report")
    with Daemon(args.folder) as daemon:
        of_be = guest(args, daemon, "be", slices, report) if slices else {}
        of_be |= {"CUDA_MPS_CLIENT_PRIORITY": "1"} if args.low else {}
        of_rt = guest(args, daemon, "rt") if slices else {}
        # In the first round its kernels are measured, and variants are built.
        be = start(command(0, 3 * args.seconds), of_be)
        first = end(start(rt, of_rt))
        second = end(start(rt, of_rt))
        be = end(be)
    if "error" in be or "error" in second:
        say(f"{name}: {label}: failed: {be.get('error')} {second.get('error')}")
        return False
    kept = int(be["launches"]) / float(be["seconds"]) / rate
    say(
        f"{name}: {label}: request p50 {second['p50']} p99 {second['p99']} max {second['max']} µs of {second['requests']}"
        f" (first round p50 {first.get('p50')} p99 {first.get('p99')}); best effort keeps {100 * kept:.1f} %"
    )
    lines = report_of(report)
    for line in lines:
        say(f"    {line}")
    return any("to other code" in line for line in lines)


def held(args, say, name, command, count, slices):
    """The results of a number of launches while the program is held at random, maybe under a tool of compute-sanitizer; and whether
    kernels stay whole because the driver compiles them differently."""
    report = os.path.join(tempfile.mkdtemp(), "report")
    log = report + ".log"
    checker = ["compute-sanitizer", "--tool", args.sanitizer, "--log-file", log] if args.sanitizer else []
    with Daemon(args.folder, seed=7) as daemon:
        process = start([*checker, *command(count, 0)], guest(args, daemon, "be", slices, report))
        found = end(process)
    checked = open(log).read().splitlines() if os.path.exists(log) else []
    lines = report_of(report)
    for line in lines + checked[:25] + checked[-1:]:
        say(f"    {line}")
    return found, any("to other code" in line for line in lines)


def bits(args, say, name, command, count, slices):
    """The same number of launches plain, sliced next to requests, and sliced while held at random."""
    rt = [os.path.join(args.built, "rt"), str(args.rate), str(args.seconds)]
    plain = end(start(command(count, 0), {}))
    say(f"{name}: plain {plain}")
    sliced = {}
    if not args.sanitizer:
        with Daemon(args.folder) as daemon:
            be = start(command(count, 0), guest(args, daemon, "be", slices))
            end(start(rt, guest(args, daemon, "rt")))
            sliced = end(be)
        say(f"{name}: sliced {sliced}")
    stopped, is_other = held(args, say, name, command, count, slices)
    if is_other:
        slices = "any"
        stopped, _ = held(args, say, name, command, count, slices)
    digests = {run.get("digest", run.get("error")) for run in (plain, sliced, stopped) if run}
    verdict = "the same bits" if len(digests) == 1 else "OTHER BITS"
    say(f"{name}: REEF_SLICES={slices}: {count} launches, held at random {args.sanitizer or ''}: {verdict} {' '.join(sorted(digests))}")


def measure(args, say, name, command, steps):
    slices = "1"
    if args.ways == ["bits"] and (steps or args.launches):
        return bits(args, say, name, command, args.launches or steps, slices)
    alone = end(start(command(0, args.seconds), {}))
    if "error" in alone:
        return say(f"{name}: not run: {alone['error']}")
    rate = int(alone["launches"]) / float(alone["seconds"])
    say(f"{name}: alone {1e3 / rate:.3f} ms a launch")
    for way in args.ways:
        if way == "bits":
            bits(args, say, name, command, args.launches or max(6, int(args.seconds * rate)), slices)
        elif colocated(args, say, name, command, rate, way, {"none": None, "gates": "0", "slices": "no-stops", "stops": "1"}[way]):
            slices = "any"
            colocated(args, say, name, command, rate, "slices of any", slices)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--seconds", type=float, default=2.5)
    parser.add_argument("--rate", type=float, default=100)
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--ways", nargs="*", default=["none", "gates", "slices", "stops", "bits"])
    parser.add_argument("--mps", action="store_true")
    parser.add_argument("--low", action="store_true")
    parser.add_argument("--launches", type=int)
    parser.add_argument("--sanitizer")
    parser.add_argument("--out")
    args = parser.parse_args()
    args.folder = os.path.realpath(args.folder)
    args.built = tempfile.mkdtemp()
    out = open(args.out, "w") if args.out else None

    def say(line):
        print(line, flush=True)
        if out:
            print(line, file=out, flush=True)

    capability = subprocess.run(
        ["nvidia-smi", "--query-gpu=name,driver_version,compute_cap", "--format=csv,noheader"], capture_output=True, text=True
    ).stdout.strip()
    say(f"device: {capability}")
    arch = "sm_" + capability.splitlines()[0].split(",")[-1].strip().replace(".", "") if capability else "sm_90"
    for name in ("be", "rt"):
        command = ["nvcc", "-O3", f"-arch={arch}", "-lineinfo", "-o", os.path.join(args.built, name)]
        subprocess.run([*command, os.path.join(HERE, name + ".cu")], check=True)
    be = os.path.join(args.built, "be")
    python = lambda file: lambda count, seconds: [sys.executable, os.path.join(HERE, file), str(count), str(seconds)]
    # With a number of steps, only the bits are compared.
    programs = {
        "busy-20ms": (lambda count, seconds: [be, "busy", str(count), str(seconds), "30000"], 0),
        "product": (lambda count, seconds: [be, "product", str(count), str(seconds)], 0),
        "triton": (python("be_triton.py"), 0),
        "graph": (python("be_graph.py"), 0),
        "busy-100ms": (lambda count, seconds: [be, "busy", str(count), str(seconds), "150000"], 0),
        "busy-1s": (lambda count, seconds: [be, "busy", str(count), str(seconds), "10000", "2047"], 0),
        "busy-2ms": (lambda count, seconds: [be, "busy", str(count), str(seconds), "10000", "4"], 6000),
        "compile": (python("be_compile.py"), 600),
    }
    if args.mps and subprocess.run(["nvidia-cuda-mps-control", "-d"]).returncode:
        sys.exit("MPS doesn't start")
    for name, (command, steps) in programs.items():
        if not args.only or name in args.only:
            measure(args, say, name, command, steps)
    if args.mps:
        subprocess.run(["nvidia-cuda-mps-control"], input="quit\n", text=True)


main()
