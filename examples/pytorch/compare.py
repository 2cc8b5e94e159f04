"""Two unmodified programs on one GPU, in each way that there is to share it: latency and what is kept.

compare.py FOLDER [--ways NAME,..] [--seconds S] [--settle S] [--budget S] [--out DIR]
           [--serve COMMAND] [--train COMMAND] [--target RATIO] [--threads PERCENT]

FOLDER has `reef` and `libreef_cuda_shim.so`, such as target/release. The programs are serve.py and
train.py of this folder, or any two that write the same lines. The ways:

    alone           each program by itself
    shared          both as they are: the driver takes turns between them
    mps             under MPS, the server with the higher priority
    mps-threads     under MPS, training with a part of the threads (--threads)
    reef            `reef exec`, the server real-time
    reef-target     the same, and the server says how much slower it may become (--target)
    mps+reef        `reef exec` under MPS

Both programs start anew in each way, and are warm before anything counts. Then both run for
--settle, and for --seconds, of which the figures are: requests that came in that time, and training
steps that ended in it. *Kept* is those steps, by the steps of training alone in the same time.

Prints a table, and writes compare.json and compare.svg to DIR [.]. A way that can't run here, or
for which --budget has no time left, is listed below the table with the reason.
"""

import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "common"))
import bars  # noqa: E402

WAYS = {
    "alone": "alone",
    "shared": "both as they are",
    "mps": "MPS, priorities",
    "mps-threads": "MPS, {threads} % of the threads for training",
    "reef": "REEF",
    "reef-target": "REEF, target {target}",
    "mps+reef": "REEF under MPS",
}
START = 120  # seconds that a program may take until it is ready


class Unable(Exception):
    """A way can't run here."""


class Program:
    """A program whose lines are kept."""

    def __init__(self, name, command, env):
        self.name, self.lines, self.is_ready = name, [], threading.Event()
        self.error = tempfile.TemporaryFile()
        self.process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=self.error, text=True)
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            self.lines.append(line.split())
            if line.strip() == "ready":
                self.is_ready.set()

    def wait(self, seconds):
        """Waits until it is ready."""
        end = time.monotonic() + seconds
        while not self.is_ready.wait(0.1):
            self.check()
            if time.monotonic() > end:
                raise Unable(f"{self.name}: not ready within {seconds:.0f} s")

    def check(self):
        """Refuses a program that has ended."""
        code = self.process.poll()
        if code is not None:
            self.error.seek(0)
            said = self.error.read().decode(errors="replace").strip().splitlines()
            raise Unable(f"{self.name}: ended with {code}: {said[-1] if said else 'without an error'}")

    def each(self, kind):
        """Numbers of all lines of a kind."""
        found = [line for line in list(self.lines) if len(line) == 3 and line[0] == kind]
        return [(float(first), float(second)) for _, first, second in found]

    def end(self):
        stop(self.process)


class Daemon:
    """`reef serve --guests` with a folder of its own."""

    def __init__(self, reef, env):
        self.folder = Path(tempfile.mkdtemp(prefix="reef-compare-"))
        with open(self.folder / "log", "wb") as log:
            command = [reef, "serve", "--guests", "--socket-dir", str(self.folder / "sockets")]
            self.process = subprocess.Popen(command, env=env, stdout=log, stderr=log)
        end = time.monotonic() + 60
        while not (self.folder / "sockets/guests.sock").exists():
            if self.process.poll() is not None or time.monotonic() > end:
                said = (self.folder / "log").read_text().strip().splitlines()
                self.end()
                raise Unable(f"no daemon: {said[-1] if said else 'it does not start'}")
            time.sleep(0.05)

    def command(self, reef, options):
        return [reef, "exec", "--strict", "--socket-dir", str(self.folder / "sockets"), *options, "--"]

    def end(self):
        stop(self.process)
        shutil.rmtree(self.folder, ignore_errors=True)


def stop(process):
    """Asks a process to end, and kills one that does not."""
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


class Mps:
    """MPS with folders of its own."""

    def __init__(self):
        if not shutil.which("nvidia-cuda-mps-control"):
            raise Unable("no nvidia-cuda-mps-control")
        self.folder = tempfile.mkdtemp(prefix="mps-")
        self.env = {"CUDA_MPS_PIPE_DIRECTORY": self.folder, "CUDA_MPS_LOG_DIRECTORY": self.folder}
        self.control("-d")

    def control(self, *options, say=None):
        command, env = ["nvidia-cuda-mps-control", *options], {**os.environ, **self.env}
        done = subprocess.run(command, env=env, input=say, capture_output=True, text=True, timeout=30)
        if done.returncode:
            raise Unable(f"nvidia-cuda-mps-control: {(done.stderr or done.stdout).strip()}")

    def end(self):
        try:
            self.control(say="quit\n")
        except (Unable, subprocess.TimeoutExpired) as error:
            print(f"MPS did not end: {error}", file=sys.stderr)
        shutil.rmtree(self.folder, ignore_errors=True)


class Run:
    """Programs of one way."""

    def __init__(self, args, way):
        self.args, self.way, self.parts = args, way, []
        self.env = dict(os.environ, REEF_SHIM=str(args.folder / "libreef_cuda_shim.so"))
        self.daemon = None

    def start(self, which):
        """Starts the server, training, or both, and waits until they are ready."""
        if self.way.startswith("mps"):
            mps = self.keep(Mps())
            self.env.update(mps.env)
        if "reef" in self.way:
            self.daemon = self.keep(Daemon(str(self.args.folder / "reef"), self.env))
        programs = [self.keep(self.program(name)) for name in which]
        for program in programs:
            program.wait(START)
        return programs

    def keep(self, part):
        self.parts.append(part)
        return part

    def program(self, name):
        is_server, env = name == "serve", dict(self.env)
        command = self.args.serve if is_server else self.args.train
        if self.way.startswith("mps"):
            env["CUDA_MPS_CLIENT_PRIORITY"] = "0" if is_server else "1"
        if self.way == "mps-threads" and not is_server:
            env["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] = str(self.args.threads)
        prefix = []
        if self.daemon:
            target = ["--slo", str(self.args.target)] if self.way == "reef-target" and is_server else []
            options = ["--class", "rt" if is_server else "be", *target]
            prefix = self.daemon.command(str(self.args.folder / "reef"), options)
        return Program(name, [*prefix, *shlex.split(command)], env)

    def measure(self, programs):
        """Lets the programs run; returns begin and end of what counts."""
        settle = self.args.settle + (self.args.settle_target if self.way == "reef-target" else 0)
        time.sleep(settle)
        begin = time.monotonic()
        time.sleep(self.args.seconds)
        for program in programs:
            program.check()
        return begin, time.monotonic()

    def end(self):
        for part in reversed(self.parts):
            part.end()


def percentile(values, part):
    values = sorted(values)
    return values[min(len(values) - 1, int(part * len(values)))]


def latency(program, begin, end):
    """Latencies in milliseconds of the requests that came in a time."""
    taken = [1e3 * took for came, took in program.each("request") if begin <= came < end]
    if not taken:
        raise Unable("serve: no request was answered in that time")
    return dict(p50=percentile(taken, 0.5), p99=percentile(taken, 0.99), requests=len(taken))


def steps(program, begin, end):
    """Training steps that ended in a time; of a step that ended partly in it, the part."""
    marks = [(at, count) for count, at in program.each("step")]
    if len(marks) < 2:
        return 0.0
    return count_at(marks, end) - count_at(marks, begin)


def count_at(marks, at):
    """Steps that had ended at a time, between two marks in proportion."""
    for (before, low), (after, high) in zip(marks, marks[1:]):
        if before <= at <= after:
            return low + (high - low) * (at - before) / max(after - before, 1e-9)
    return marks[0][1] if at < marks[0][0] else marks[-1][1]


def figures(args, way, which):
    """Runs programs in a way; returns the figures of each."""
    run = Run(args, way)
    try:
        programs = run.start(which)
        begin, end = run.measure(programs)
    finally:
        run.end()
    found = {}
    for name, program in zip(which, programs):
        is_server = name == "serve"
        found[name] = latency(program, begin, end) if is_server else steps(program, begin, end) / (end - begin)
    return found


class Comparison:
    """Results so far."""

    def __init__(self, args):
        self.args, self.begin, self.rows, self.left, self.last = args, time.monotonic(), [], [], 0.0
        self.alone, self.training = None, None

    def run(self, way):
        begun = time.monotonic()
        if begun - self.begin + self.last > self.args.budget:
            return self.left.append((way, f"no time was left of {self.args.budget:.0f} s"))
        try:
            self.run_one(way)
        except (Unable, OSError, subprocess.SubprocessError) as error:
            self.left.append((way, str(error)))
        self.last = time.monotonic() - begun

    def run_one(self, way):
        if way == "alone":
            self.training = figures(self.args, way, ["train"])["train"]
            self.alone = figures(self.args, way, ["serve"])["serve"]
            return self.add(way, self.alone, None)
        found = figures(self.args, way, ["train", "serve"])
        self.add(way, found["serve"], found["train"])

    def add(self, way, served, trained):
        name = WAYS[way].format(threads=self.args.threads, target=self.args.target)
        growth = served["p99"] / self.alone["p99"] if self.alone else None
        kept = 100 * trained / self.training if trained is not None and self.training else None
        row = dict(way=way, name=name, **served, growth=growth, kept=kept, steps_per_s=trained)
        self.rows.append(row)
        print(line(row), flush=True)

    def write(self):
        self.args.out.mkdir(parents=True, exist_ok=True)
        left = [dict(way=way, why=why) for way, why in self.left]
        all_of = dict(rows=self.rows, left_out=left, training_alone=self.training, seconds=self.args.seconds)
        (self.args.out / "compare.json").write_text(json.dumps(all_of, indent=1) + "\n")
        drawn = [{**row, "is_reef": "reef" in row["way"]} for row in self.rows]
        text = bars.drawing("p99 of the server, ms", "training kept, %", drawn)
        (self.args.out / "compare.svg").write_text(text)


def shown(value, form):
    return "–" if value is None else form.format(value)


def line(row):
    cells = [row["name"], f"{row['p50']:.2f}", f"{row['p99']:.2f}"]
    cells += [shown(row["growth"], "{:.2f}"), shown(row["kept"], "{:.0f} %"), str(row["requests"])]
    return "| " + " | ".join(cells) + " |"


HEAD = "| | p50, ms | p99, ms | p99 ÷ alone | kept | requests |\n|---|--:|--:|--:|--:|--:|"


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    python = shlex.quote(sys.executable)
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument("--ways", default=",".join(WAYS), help="ways by their names, in this order")
    parser.add_argument("--seconds", type=float, default=12, help="time of which the figures are [12]")
    parser.add_argument("--settle", type=float, default=2, help="time before that in which both run [2]")
    parser.add_argument("--settle-target", type=float, default=8, help="more of it with a target [8]")
    parser.add_argument("--budget", type=float, default=290, help="time in all, in seconds [290]")
    parser.add_argument("--target", type=float, default=1.1, help="ratio of `reef exec --slo` [1.1]")
    parser.add_argument("--threads", type=int, default=30, help="percentage for training under MPS [30]")
    parser.add_argument("--serve", default=f"{python} {shlex.quote(str(HERE / 'serve.py'))}", help="command of the server")
    parser.add_argument("--train", default=f"{python} {shlex.quote(str(HERE / 'train.py'))}", help="command of training")
    parser.add_argument("--out", type=Path, default=Path("."), help="folder of compare.json and compare.svg [.]")
    args = parser.parse_args()
    args.folder = args.folder.resolve()
    args.chosen = args.ways.split(",")
    unknown = [way for way in args.chosen if way not in WAYS]
    if unknown:
        parser.error(f"--ways: must be among {', '.join(WAYS)}, got {unknown[0]}")
    for name in ["reef", "libreef_cuda_shim.so"]:
        if any("reef" in way for way in args.chosen) and not (args.folder / name).is_file():
            parser.error(f"{args.folder / name}: no such file: cargo build --release -p reef-cli -p reef-shim makes it")
    return args


def main():
    args = arguments()
    comparison = Comparison(args)
    print(HEAD, flush=True)
    for way in args.chosen:
        comparison.run(way)
    comparison.write()
    for way, why in comparison.left:
        print(f"left out: {way}: {why}")
    print(f"{time.monotonic() - comparison.begin:.0f} s; {args.out / 'compare.svg'}")
    sys.exit(0 if comparison.rows else 1)


if __name__ == "__main__":
    main()
