#!/usr/bin/env python3
"""Two unmodified programs on one GPU: how much of the second is left, by how much the first grows.

colocate.py FOLDER [--pairs NAME,..] [--ways NAME,..] [--repeat N] [--in-turns] [--seconds S] [--budget S] ...

FOLDER has `reef` and `libreef_cuda_shim.so`. A pair is RT+BE, by names of programs.py; `eight` are
eight pairs. A way is one of these, with `mps+` before it for the same under MPS:
    alone       each program by itself, the other one idle
    slices      both at once; under MPS its priorities apply
    reef:30     the second with --colocate 30
    slo:1.10    the first with --slo 1.10
and `mps:30` is mps+slices with 30 % of the threads for the second, `mps:30/70` with 70 % for the
first as well, `mps:30+slo:1.10` the same with a target. Ways with the same daemons share one
session: its programs start at once, and wait for their turns. With --in-turns all sessions are
there at once, and each repetition has each way of a pair, one after the other, so that a host that
is slow for a while meets all of them. Prints a line for each run:
    p50 x, p99 x   multiples of the same process alone right before, which alone is fair if the
                   host changes its speed
    p999 x         of its 99th percentile alone
    plain x        99th percentile as a multiple of that alone without MPS
    kept %         speed of the second while the first ran, of its own alone
    still ms       the second's longest standstill meanwhile
    watts          mean power of the GPU, if its driver counts energy
    1st s x        99th percentile of the first second that is measured; with --settle 0 that in
                   which both begin
    host us        99th percentile of what a fixed piece of work of the host took meanwhile, with
                   its wake-up (host.py)
    max x          the longest step as a multiple of the 99th percentile alone: it shows rare long stops
    met            windows of 2 s and 1,000 steps that meet the target, of all (1.10 if none is set)
At the end of a line stands what REEF itself has measured, as growth@part for each second. With
repetitions the last table has the median, the least and the greatest of each, and for programs
whose speed alone differs from second to second:
    pooled x       99th percentile of all runs of a way, as a multiple of that of all measurements
                   alone of the same program with or without MPS, before runs that are not left out
    late %         part of their steps that are longer than the target times that, beyond the part
                   of those alone. A target allows 1
It leaves out runs during which the host was slow, by host.py alone: those with a quarter of a
second, alone or next to each other, whose median is more than 1.2 times that of the fastest
quarter of all runs. If fewer than half of a way's runs are left, it counts all, and says so.
What doesn't fit into the budget of seconds is listed at the end.
"""
import argparse
import collections
import ctypes
import dataclasses
import http.client
import json
import os
import pathlib
import queue
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

import figures

HERE = pathlib.Path(__file__).resolve().parent
EIGHT = ["llm+train", "llm-eager+train", "whisper+train", "unet+train", "gnn+train", "train-small+resnet152",
         "jax+train", "cupy+train"]
WAYS = ["alone", "mps+alone", "slices", "reef:0", "reef:30", "slo:1.10", "mps", "mps:30", "mps+reef:30",
        "mps+slo:1.10", "mps:30+slo:1.10"]
PREPARE = 120
# Programs of --in-turns: each has some 2 GiB of the host's memory and a context on the device.
MAX_PROGRAMS = 48


@dataclasses.dataclass(frozen=True)
class Way:
    """Way in which a pair runs."""

    text: str

    @property
    def kind(self):
        """alone, slices, reef or slo, and its value."""
        last = self.text.rpartition("+")[2]
        return ("slices", "") if last.startswith("mps") else tuple((last + ":").split(":")[:2])

    @property
    def target(self):
        name, value = self.kind
        return float(value) if name == "slo" else 1.10

    @property
    def is_mps(self):
        return self.text.startswith("mps")

    @property
    def threads(self):
        """Threads of the second and of the first program, in percent; empty: all."""
        first = self.text.partition("+")[0]
        second, _, other = first.partition(":")[2].partition("/") if self.is_mps else ("", "", "")
        return second, other

    @property
    def session(self):
        """Daemons of the session: whether there is MPS, and REEF's with the target of real-time programs."""
        name, value = self.kind
        return self.is_mps, {"reef": "reef", "slo": "slo:" + value}.get(name, "")


class Program:
    """A program that waits for its turns."""

    def __init__(self, prefix, name, env, script="programs.py"):
        command = prefix + [sys.executable, str(HERE / script), name]
        self.name, self.lines, self.error, self.why = name, queue.Queue(), tempfile.TemporaryFile(), None
        self.process = subprocess.Popen(
            command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.error, text=True
        )
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put(None)

    def line(self, timeout):
        if self.why:
            raise RuntimeError(self.why)
        try:
            line = self.lines.get(timeout=max(timeout, 0.1))
        except queue.Empty:
            line = None
        if line is None:
            self.error.seek(0)
            said = self.error.read().decode(errors="replace").strip().splitlines()[-3:]
            self.why = f"{self.name}: {' | '.join(said) or 'no answer'}"
            raise RuntimeError(self.why)
        return line

    def ready(self, timeout):
        while self.line(timeout).strip() != "ready":
            pass

    def go(self, settle, seconds, after):
        if self.why:
            raise RuntimeError(self.why)
        self.process.stdin.write(f"{settle} {seconds} {after}\n")
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

    def __init__(self, reef, env):
        self.reef, self.env, self.folder = reef, env, pathlib.Path(tempfile.mkdtemp())
        self.log = open(self.folder / "serve.log", "w")
        command = [reef, "serve", "--guests", "--socket-dir", str(self.folder)]
        self.process = subprocess.Popen(command, env=env, stdout=self.log, stderr=self.log)
        end = time.monotonic() + 30
        while not (self.folder / "guests.sock").exists():
            if time.monotonic() > end or self.process.poll() is not None:
                raise RuntimeError("no daemon: " + (self.folder / "serve.log").read_text()[-300:])
            time.sleep(0.05)

    def figures(self, program):
        """Returns what it counts of a guest: by name, without `reef_guest_`."""
        connection = http.client.HTTPConnection("reef", timeout=5)
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.connect(str(self.folder / "http.sock"))
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
        connection.close()
        mine = [line for line in text.splitlines() if f'pid="{program.process.pid}"' in line]
        mine = [line for line in mine if line.startswith("reef_guest_") and "_call_" not in line]
        return {line.split("{")[0].removeprefix("reef_guest_"): float(line.split()[-1]) for line in mine}

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


class Probe:
    """host.py, which runs as long as this program."""

    def __init__(self):
        command = [sys.executable, str(HERE / "host.py")]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def samples(self):
        """Returns the samples since the last call. If it has ended there are none."""
        try:
            self.process.stdin.write("\n")
            self.process.stdin.flush()
            return json.loads(self.process.stdout.readline())
        except (OSError, ValueError):
            return []

    def end(self):
        self.process.kill()
        self.process.communicate()


class Mps:
    """NVIDIA's daemon, which all sessions with MPS share. It starts with the first one."""

    def __init__(self):
        self.env = None

    def start(self, env):
        """Returns an environment with its folders."""
        if not self.env:
            self.env = start_mps(env)
        return dict(env, **{key: value for key, value in self.env.items() if key.startswith("CUDA_MPS_")})

    def end(self):
        env, self.env = self.env, None
        try:
            if env:
                end_mps(env)
        except (subprocess.SubprocessError, OSError) as error:  # what was measured stays
            print(f"# MPS: {error}", flush=True)


class Session:
    """Programs of several ways, next to the same daemons."""

    def __init__(self, args, mps, probe, is_mps, scheduler):
        self.args, self.probe, self.is_mps, self.scheduler, self.programs = args, probe, is_mps, scheduler, {}
        self.energy, self.daemon = Energy(), None
        self.env = dict(os.environ, REEF_SHIM=str(args.folder / "libreef_cuda_shim.so"))
        self.env.update(pair.split("=", 1) for pair in args.env)
        self.env = mps.start(self.env) if is_mps else self.env
        self.daemon = Daemon(str(args.folder / "reef"), self.env) if scheduler else None

    def program(self, name, is_first, threads, colocate):
        """Returns a program, which is started if there is none like it."""
        key = (name, is_first, threads, colocate)
        if key not in self.programs:
            env, prefix = dict(self.env), []
            if self.is_mps:
                env["CUDA_MPS_CLIENT_PRIORITY"] = "0" if is_first else "1"
            if threads:
                env["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] = threads
            if self.daemon:
                target = self.scheduler.partition(":")[2]
                prefix = [str(self.args.folder / "reef"), "exec", "--socket-dir", str(self.daemon.folder), "--class"]
                prefix += ["rt"] + (["--slo", target] if target else []) if is_first else ["be"]
                prefix += (["--colocate", colocate] if colocate else []) + ["--"]
            self.programs[key] = Program(prefix, name, env)
        return self.programs[key]

    def both(self, pair, way):
        (first, second), (threads, first_threads) = pair.split("+"), way.threads
        name, value = way.kind
        colocate = value if name == "reef" else ""
        return self.program(first, True, first_threads, ""), self.program(second, False, threads, colocate)

    def start(self, plan):
        """Starts the programs of a plan."""
        for pair, way in plan:
            self.both(pair, way)

    def wait(self, end):
        """Waits until its programs are ready, at most until this time."""
        for program in self.programs.values():
            try:
                program.ready(end - time.monotonic())
            except RuntimeError as error:
                print(error, flush=True)

    def alone(self, program, seconds):
        program.go(0.4, seconds, 0)
        return program.result(seconds + 60)

    def run(self, pair, way, settle):
        """Runs a pair, for `settle` seconds before it is measured. Returns the results of both, of the first one alone, figures over time, the power, and the host."""
        rt, be = self.both(pair, way)
        alone = self.alone(rt, self.args.alone)
        seconds, samples = self.args.seconds, []
        for program in (be, rt):
            program.go(settle, seconds, 0.3)
        begin, joules = time.monotonic(), self.energy.joules()
        end = begin + settle + seconds - 0.1
        while time.monotonic() < end:
            time.sleep(min(1, max(0, end - time.monotonic())))
            if self.daemon:
                samples.append(dict(rt=self.daemon.figures(rt), be=self.daemon.figures(be)))
        watts = (self.energy.joules() - joules) / (time.monotonic() - begin)
        results = rt.result(settle + seconds + 60), be.result(settle + seconds + 60)
        # From the first step alone on: a ratio of two speeds of the host says nothing.
        host = figures.Host(self.probe.samples(), alone["marks"][0], results[0]["marks"][-1])
        return *results, alone, samples, watts, host

    def end(self):
        for program in self.programs.values():
            program.end()
        if self.daemon:
            self.daemon.end()


class Energy:
    """Energy that a GPU has taken since its driver was loaded, by NVML."""

    def __init__(self):
        self.nvml, self.device = None, ctypes.c_void_p()
        try:
            nvml = ctypes.CDLL("libnvidia-ml.so.1")
        except OSError:
            return
        if nvml.nvmlInit_v2() == 0 and nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(self.device)) == 0:
            self.nvml = nvml

    def joules(self):
        """Returns nan if nothing counts it."""
        used = ctypes.c_ulonglong()
        if not self.nvml or self.nvml.nvmlDeviceGetTotalEnergyConsumption(self.device, ctypes.byref(used)):
            return float("nan")
        return used.value / 1e3


COLUMNS = ["p50 ms", "p99 ms", "p50 x", "p99 x", "p999 x", "plain x", "kept %", "still ms", "watts", "1st s x", "host us", "max x"]
FORMATS = ["8.3f", "8.3f", "7.3f", "7.3f", "7.3f", "7.3f", "7.1f", "8.1f", "6.0f", "7.3f", "8.0f", "7.3f"]
REPEATED = [3, 4, 6, 7, 8, 9, 10, 11]  # columns of the table of repetitions


def line(pair, way, cells, rest):
    print(f"{pair:22} {way:15} " + " ".join(cells) + f" {rest}", flush=True)


class Table:
    """Results so far."""

    def __init__(self, path, has_lengths):
        self.path, self.has_lengths, self.rows, self.alone = path, has_lengths, [], {}
        self.lengths, self.alone_lengths = [], []  # of each row: of its run, and alone right before

    def add(self, pair, way, rt, be, alone, samples=(), watts=float("nan"), host=None, is_new=True):
        first, second = pair.split("+")
        host = host or figures.Host((), 0, 0)
        plain, other, nan = self.alone.get((False, first)), self.alone.get((False, second)), float("nan")
        is_pair = other and way.kind[0] != "alone"
        both = figures.Pair(rt["marks"], be["ends"], alone["marks"], other["per_s"]) if is_pair else None
        target, key = way.target, (first, way.is_mps, way.threads[1])
        lengths = [figures.lengths(one["marks"]) for one in (rt, alone)]
        self.lengths.append(lengths[0])
        self.alone_lengths.append(lengths[1] if is_new else [])
        values = [rt["p50"], rt["p99"], rt["p50"] / alone["p50"], rt["p99"] / alone["p99"], rt["p999"] / alone["p99"]]
        values += [rt["p99"] / plain["p99"] if plain else nan, both.kept() if both else nan]
        values += [both.standstill() if both else nan, watts, both.begin() if both else nan, host.p99()]
        values.append(rt["max"] / alone["p99"])
        met = "{}/{}".format(*both.met(target)) if both else "-"
        growth = " ".join(f"{one['rt'].get('growth_ratio', nan):.2f}@{one['rt'].get('colocation_ratio', nan):.3f}" for one in samples)
        line(pair, way.text, [format(*one) for one in zip(values, FORMATS)], f"{met:>6}  {growth}")
        without = lambda one: {key: value for key, value in one.items() if key not in ("marks", "ends")} if one else one
        row = dict(pair=pair, way=way.text, rt=without(rt), be=without(be), alone=without(alone), values=values, met=met)
        row.update(p50_ratio=values[2], p99_ratio=values[3], p99_plain=values[5], kept=values[6])
        row.update(key=key, target=target, host_p99=host.p99(), host_slowest=host.slowest())
        if self.has_lengths:
            row["lengths"] = [[round(one, 4) for one in of] for of in lengths]
        self.rows.append(dict(row, samples=list(samples)))
        if self.path:
            pathlib.Path(self.path).write_text(json.dumps(self.rows, indent=1))

    def add_alone(self, session, pair, way):
        is_new = (way.is_mps, pair.split("+")[0]) not in self.alone
        for name, program in zip(pair.split("+"), session.both(pair, way)):
            key = (way.is_mps, name)
            if key not in self.alone and not (way.is_mps and program is session.both(pair, way)[1]):
                self.alone[key] = session.alone(program, session.args.seconds)
        first, second = pair.split("+")
        one = self.alone[(way.is_mps, first)]
        self.add(pair, way, one, self.alone.get((False, second)), one, is_new=is_new)

    def repeated(self):
        """Prints the median of repetitions, and the least and the greatest."""
        groups = collections.defaultdict(list)
        is_steady = figures.steady([row["host_slowest"] for row in self.rows])
        for at, row in enumerate(self.rows):
            groups[row["pair"], row["way"]].append(at)
        columns = ", ".join(COLUMNS[at] for at in REPEATED)
        print(f"# median (least to greatest): {columns}; pooled x, late %; windows that met the target, of all")
        for (pair, way), runs in groups.items():
            kept, note = steady_runs(runs, is_steady)
            rows, cells = [self.rows[at] for at in kept], []
            for at in REPEATED:
                form = FORMATS[at].split(".")[1]
                middle, least, most = (format(one, "." + form) for one in figures.spread([row["values"][at] for row in rows]))
                cells.append(f"{middle} ({least} to {most})")
            lengths = [one for at in kept for one in self.lengths[at]]
            pooled = figures.pooled(lengths, self.all_alone(kept, is_steady), rows[0]["target"])
            cells += [format(*one) for one in zip(pooled, ("7.3f", "7.2f"))]
            met = [row["met"].split("/") for row in rows if row["met"] != "-"]
            line(pair, way, cells, f"{sum(int(one[0]) for one in met)}/{sum(int(one[1]) for one in met)} of {note}")

    def all_alone(self, kept, is_steady):
        """Returns the lengths of all steps alone with which those of a way are compared: of the runs that count."""
        key, counts = self.rows[kept[0]]["key"], set(kept)
        rows = [at for at, row in enumerate(self.rows) if row["key"] == key and (is_steady[at] or at in counts)]
        return [one for at in rows for one in self.alone_lengths[at]]


def steady_runs(runs, is_steady):
    """Returns those of a way's runs that count, and what to say of them."""
    kept = [at for at in runs if is_steady[at]]
    if 2 * len(kept) < len(runs):
        return runs, f"{len(runs)} runs, during {len(runs) - len(kept)} of which the host was slow"
    left = len(runs) - len(kept)
    return kept, f"{len(kept)} runs" + (f", {left} left out" if left else "")


def settle_of(args, way, is_first):
    """Returns the seconds between a run's begin and its measurement. A later run goes on with what the first one found."""
    if way.kind[0] != "slo":
        return 0.7
    return args.settle if is_first or args.later_settle is None else args.later_settle


def seconds_of(args, way, is_first):
    """Returns the seconds that a run takes, about."""
    if way.kind[0] == "alone":
        return 2 * (args.seconds + 0.5)
    return args.alone + 0.5 + settle_of(args, way, is_first) + args.seconds + 0.4


def repeated(args, plan):
    """Returns the runs of a plan in their order: all of them, then all but those alone as often as wanted."""
    return plan + [run for _ in range(args.repetitions - 1) for run in plan if run[1].kind[0] != "alone"]


def in_turns(args, runs):
    """Returns the runs of all sessions in their order: those alone, then each way of each pair, again and again."""
    alone = [run for run in runs if run[1].kind[0] == "alone"]
    pairs = list(dict.fromkeys(pair for pair, _ in runs))
    others = [run for pair in pairs for run in runs if run[0] == pair and run[1].kind[0] != "alone"]
    return alone + others * args.repetitions


def run_all(args, sessions, order, table, begin):
    """Runs pairs in this order, each in its session. Returns what was left out."""
    left, ran = [], set()
    for pair, way in order:
        session, is_first = sessions.get(way.session), (pair, way) not in ran
        if not session or time.monotonic() - begin + seconds_of(args, way, is_first) > args.budget:
            left.append(f"{pair} {way.text}")
            continue
        try:
            if way.kind[0] == "alone":
                table.add_alone(session, pair, way)
                session.probe.samples()  # or the next run would have those of this one
            else:
                table.add(pair, way, *session.run(pair, way, settle_of(args, way, is_first)))
                ran.add((pair, way))
        except (RuntimeError, subprocess.SubprocessError, OSError) as error:
            print(f"{pair:22} {way.text:15} {error}", flush=True)
    return left


def run_sessions(args, plans, order, table, probe, begin):
    """Opens the sessions of these plans at once, and runs an order. Returns what was left out."""
    mps, sessions = Mps(), {}
    try:
        for key, plan in plans.items():
            try:
                sessions[key] = Session(args, mps, probe, *key)
                sessions[key].start(plan)
            except (RuntimeError, subprocess.SubprocessError, OSError) as error:
                print(f"# {key}: {error}", flush=True)
        end = time.monotonic() + PREPARE
        for session in sessions.values():
            session.wait(end)
        print(f"# {', '.join(map(str, plans))}: ready at {time.monotonic() - begin:.0f} s", flush=True)
        return run_all(args, sessions, order, table, begin)
    finally:
        for session in sessions.values():
            session.end()
        mps.end()


def programs_of(runs):
    """Returns the number of programs of these runs that wait for their turns."""
    first = {(way.session, pair.split("+")[0], way.threads[1]) for pair, way in runs}
    colocate = lambda way: way.kind[1] if way.kind[0] == "reef" else ""
    second = {(way.session, pair.split("+")[1], way.threads[0], colocate(way)) for pair, way in runs}
    return len(first) + len(second)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--pairs", default="llm+train")
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--extra", default="", help="more runs: PAIR=WAY,..")
    parser.add_argument("--repetitions", "--repeat", type=int, default=1, help="of each run but those alone")
    parser.add_argument("--in-turns", action="store_true", help="each repetition has all ways: all sessions are there at once")
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--settle", type=float, default=5, help="time before a measurement with a target")
    parser.add_argument("--later-settle", type=float, help="the same before its later repetitions (default: as --settle)")
    parser.add_argument("--alone", type=float, default=2, help="time of a measurement alone before each run")
    parser.add_argument("--budget", type=float, default=280)
    parser.add_argument("--env", action="append", default=[], metavar="NAME=VALUE", help="for all programs")
    parser.add_argument("--json")
    parser.add_argument("--lengths", action="store_true", help="have the length of each step in it, next to others and alone")
    args = parser.parse_args()
    args.folder = args.folder.resolve()
    pairs = EIGHT if args.pairs == "eight" else args.pairs.split(",")
    runs = [(pair, Way(way)) for way in args.ways.split(",") for pair in pairs]
    runs += [(one.partition("=")[0], Way(one.partition("=")[2])) for one in args.extra.split(",") if one]
    for pair, _ in runs:
        if pair.count("+") != 1:
            parser.error(f"pair: must be RT+BE, got {pair!r}")
    if args.repetitions < 1:
        parser.error(f"--repetitions: must be at least 1, got {args.repetitions}")
    if args.in_turns and programs_of(runs) > MAX_PROGRAMS:
        parser.error(f"--in-turns: must be at most {MAX_PROGRAMS} programs at once, got {programs_of(runs)}: fewer pairs or ways")
    sessions = collections.defaultdict(list)
    for pair, way in runs:
        sessions[way.session].append((pair, way))
    begin, table, left = time.monotonic(), Table(args.json, args.lengths), []
    line("pair", "way", [f"{head:>{form.split('.')[0]}}" for head, form in zip(COLUMNS, FORMATS)], "   met  growth@part")
    groups = [(dict(sessions), in_turns(args, runs))]
    if not args.in_turns:
        groups = [({key: plan}, repeated(args, plan)) for key, plan in sessions.items()]
    probe = Probe()
    try:
        for plans, order in groups:
            if time.monotonic() - begin > args.budget - 30:
                left += [f"{pair} {way.text}" for pair, way in order]
            else:
                left += run_sessions(args, plans, order, table, probe, begin)
    finally:
        probe.end()
    if args.repetitions > 1:
        table.repeated()
    print(f"{time.monotonic() - begin:.0f} s", "left out: " + ", ".join(left) if left else "")


if __name__ == "__main__":
    main()
