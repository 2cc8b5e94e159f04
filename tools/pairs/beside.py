"""Two unmodified programs on one GPU: how much of the second is left, by how much the first grows.

beside.py FOLDER [--pairs NAME,..] [--ways NAME,..] [--seconds S] [--settle S] [--budget S] [--json FILE]

FOLDER has `reef` and `libreef_cuda_shim.so`. A pair is RT+BE, by names of programs.py; `eight` are
eight pairs. Ways: alone, slices, reef:0, reef:30 (--beside), slo:1.10, mps, mps:30 (active threads
of the second program, in percent), mps+reef:30, mps+slo:1.10, mps:30+slo:1.10. Ways that don't fit into the
budget of seconds are listed at the end. Prints a line for each run, and writes all as JSON.
"""
import argparse
import json
import os
import pathlib
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
EIGHT = ["llm+train", "llm-eager+train", "whisper+train", "unet+train", "gnn+train", "train-small+resnet152",
         "jax+train", "cupy+train"]
WAYS = ["alone", "slices", "reef:0", "reef:30", "slo:1.10", "mps", "mps:30", "mps+reef:10", "mps+reef:30",
        "mps+reef:50", "mps+slo:1.10", "mps+slo:1.25", "mps:30+slo:1.10"]
PREPARE = 90


class Program:
    """A program that waits for its start."""

    def __init__(self, prefix, name, env):
        command = prefix + [sys.executable, str(HERE / "programs.py"), name]
        self.name, self.lines, self.error = name, queue.Queue(), tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.error, text=True
        )
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put(None)

    def line(self, timeout):
        try:
            line = self.lines.get(timeout=timeout)
        except queue.Empty:
            line = None
        if line is None:
            self.error.seek(0)
            said = self.error.read().decode(errors="replace").strip().splitlines()[-3:]
            raise RuntimeError(f"{self.name}: {' | '.join(said) or 'no answer'}")
        return line

    def ready(self):
        while self.line(PREPARE).strip() != "ready":
            pass

    def go(self, settle, seconds):
        self.process.stdin.write(f"{settle} {seconds}\n")
        self.process.stdin.flush()

    def result(self, timeout):
        while True:
            line = self.line(timeout)
            if line.startswith("{"):
                return json.loads(line)

    def end(self):
        self.process.kill()
        self.process.wait()


class Daemon:
    """`reef serve --guests` in a folder of its own."""

    def __init__(self, reef, env, folder):
        self.folder, self.log = pathlib.Path(folder), open(pathlib.Path(folder) / "serve.log", "w")
        command = [reef, "serve", "--guests", "--socket-dir", str(folder)]
        self.process = subprocess.Popen(command, env=env, stdout=self.log, stderr=self.log)
        end = time.monotonic() + 30
        while not (self.folder / "guests.sock").exists():
            if time.monotonic() > end or self.process.poll() is not None:
                raise RuntimeError("no daemon: " + (self.folder / "serve.log").read_text()[-300:])
            time.sleep(0.05)

    def guests(self, reef, env):
        """Returns what it counts of its guests."""
        command = [reef, "ctl", "metrics", "--socket-dir", str(self.folder)]
        text = subprocess.run(command, env=env, capture_output=True, text=True, timeout=10).stdout
        wanted = ("reef_guest_beside", "reef_guest_growth", "reef_guest_passed", "reef_guest_held", "reef_guest_breathers")
        return [line for line in text.splitlines() if line.startswith(wanted)]

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()


def start_mps(env):
    folder = tempfile.mkdtemp()
    env = dict(env, CUDA_MPS_PIPE_DIRECTORY=folder + "/pipe", CUDA_MPS_LOG_DIRECTORY=folder + "/log")
    os.makedirs(folder + "/pipe")
    os.makedirs(folder + "/log")
    subprocess.run(["nvidia-cuda-mps-control", "-d"], env=env, check=True, timeout=20)
    return env


def end_mps(env):
    subprocess.run(["nvidia-cuda-mps-control"], input="quit\n", env=env, text=True, timeout=30)


def run_way(args, way, pair):
    """Runs a pair in one way. Returns the results of both, and the daemon's figures."""
    rt, be = pair.split("+")
    env, reef, shim = dict(os.environ), str(args.folder / "reef"), str(args.folder / "libreef_cuda_shim.so")
    env["REEF_SHIM"] = shim
    mps, _, kind = way.rpartition("+")
    if kind.startswith("mps"):
        mps, kind = kind, ""
    threads = mps.partition(":")[2]
    base, daemon, programs, figures = env, None, [], []
    try:
        if mps:
            env = start_mps(env)
        rt_env, be_env, rt_prefix, be_prefix = dict(env), dict(env), [], []
        if mps:
            rt_env["CUDA_MPS_CLIENT_PRIORITY"], be_env["CUDA_MPS_CLIENT_PRIORITY"] = "0", "1"
        name, _, value = kind.partition(":")
        if threads:
            be_env["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] = threads
        if name in ("reef", "slo"):
            daemon = Daemon(reef, env, tempfile.mkdtemp())
            options = ["--socket-dir", str(daemon.folder)]
            rt_prefix = [reef, "exec", "--class", "rt"] + options + (["--slo", value] if name == "slo" else []) + ["--"]
            be_prefix = [reef, "exec", "--class", "be"] + options + (["--beside", value] if name == "reef" else []) + ["--"]
        programs = [Program(be_prefix, be, be_env), Program(rt_prefix, rt, rt_env)]
        for program in programs:
            program.ready()
        settle = args.settle if name == "slo" else min(1.5, args.settle)
        for program in programs:
            program.go(settle, args.seconds)
        if daemon:
            time.sleep(settle + args.seconds - 0.3)
            figures = daemon.guests(reef, env)
        results = [program.result(args.seconds + settle + 60) for program in programs]
        return results[1], results[0], figures
    finally:
        for program in programs:
            program.end()
        if daemon:
            daemon.end()
        if mps and env is not base:
            end_mps(env)


def run_alone(args, name):
    program = Program([], name, dict(os.environ))
    try:
        program.ready()
        program.go(1, args.seconds)
        return program.result(args.seconds + 30)
    finally:
        program.end()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--pairs", default="llm+train")
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--settle", type=float, default=5)
    parser.add_argument("--budget", type=float, default=280)
    parser.add_argument("--json")
    args = parser.parse_args()
    args.folder = args.folder.resolve()
    begin, all_results, alone, left_out = time.monotonic(), [], {}, []
    pairs = EIGHT if args.pairs == "eight" else args.pairs.split(",")
    print(f"{'pair':24} {'way':14} {'p50 ms':>8} {'p99 ms':>8} {'p50 x':>6} {'p99 x':>6} {'kept %':>7}  daemon", flush=True)
    for pair in pairs:
        for way in args.ways.split(","):
            if time.monotonic() - begin > args.budget:
                left_out.append(f"{pair} {way}")
                continue
            try:
                if way == "alone":
                    for name in pair.split("+"):
                        alone[name] = alone.get(name) or run_alone(args, name)
                    rt, be, figures = alone[pair.split("+")[0]], alone[pair.split("+")[1]], []
                else:
                    rt, be, figures = run_way(args, way, pair)
            except (RuntimeError, subprocess.SubprocessError, OSError) as error:
                print(f"{pair:24} {way:14} {error}", flush=True)
                continue
            one, other = (alone.get(name) for name in pair.split("+"))
            p50 = rt["p50"] / one["p50"] if one else float("nan")
            p99 = rt["p99"] / one["p99"] if one else float("nan")
            kept = 100 * be["per_s"] / other["per_s"] if other else float("nan")
            short = " ".join(
                f"{line.split('{')[0].removeprefix('reef_guest_')}={float(line.split()[-1]):.3f}"
                for line in figures
                if line.startswith(("reef_guest_beside", "reef_guest_growth"))
            )
            print(f"{pair:24} {way:14} {rt['p50']:8.3f} {rt['p99']:8.3f} {p50:6.3f} {p99:6.3f} {kept:7.1f}  {short}", flush=True)
            all_results.append(dict(pair=pair, way=way, rt=rt, be=be, p50_ratio=p50, p99_ratio=p99, kept=kept, figures=figures))
            if args.json:
                pathlib.Path(args.json).write_text(json.dumps(all_results, indent=1))
    print(f"{time.monotonic() - begin:.0f} s", "left out: " + ", ".join(left_out) if left_out else "")


main()
