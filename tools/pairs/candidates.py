"""Ways to let best-effort work run next to a real-time program that never pauses, under MPS.

candidates.py [--sections f,a,d,c,e,n,h] [--seconds S] [--budget S] [--json FILE] [--dry]

Sections:
    f   facts: green contexts of an MPS client, and graphs on them
    a   few multiprocessors: trainers on a green context, or with as many threads of MPS, next to the language model
    e   the same next to the decoder; n: a trainer with cuDNN on a green context, of which it has never used another
    d   by resource: five kinds of kernels, at a share of the time, or with few threads of MPS
    c   by length: kernels of 5 to 1,000 us, at a share of the time
    h   some of d and c next to products
`llm` and `train` are those of programs.py, `native` is `train` without cuDNN's batch norms, `gpt` trains transformers,
`decode` is a smaller `llm`, and `compute` a chain of products. Others are KIND[:US][@SMS][/SHARE]: `gemm`, `copy`,
`sweep` (reads what fits into the L2 cache), `small` (96 kernels of 1 us), `spin:US` (arithmetic, one wave that fills
the device), `few:US` (16 blocks), `waves:US` (waves of 20 us), and `nap:US` (nothing but the pace). `@28` is a green
context of 28 multiprocessors, `@0-132` one step in turn on all, without and with one. `/30` launches a unit whenever
30 % of the time is over that it takes alone.
Latency is the 99th percentile of a iteration, by that alone shortly before. Kept is the rate of units, by the rate
alone with all threads, one behind the other.
"""
import argparse
import json
import os
import pathlib
import time

import colocate

THREADS = {8: "7", 16: "13", 28: "22", 40: "31"}  # multiprocessors, and percent of MPS that give them
KINDS = ["gemm", "copy", "sweep", "small", "spin:100"]
TRAINERS = ("train", "native", "gpt")
LENGTHS = [5, 20, 50, 100, 300, 1000]
LONG = 4.2  # times --seconds: iterations of llm are that much longer


def plan(sections):
    """Returns the runs: section, real-time work, client of the best-effort work ("": all threads), its work."""
    runs = [("a", "llm", percent, "native") for percent in THREADS.values()] + [("a", "llm", "22", "train")]
    runs += [("a", "llm", "", "native"), ("a", "llm", "", "gpt@28"), ("a", "llm", "22", "gpt")]
    for rt, shares, percents in (("decode", (30, 10), ("13", "31")), ("compute", (30,), ("31",))):
        name = "d" if rt == "decode" else "h"
        runs += [(name, rt, "", f"{kind}/{share}") for share in shares for kind in KINDS]
        runs += [(name, rt, percent, kind) for percent in percents for kind in KINDS]
    runs += [("h", "compute", "", f"spin:{us}/30") for us in (20, 300, 1000)]
    runs += [("c", "decode", "", f"spin:{us}/30") for us in LENGTHS if us != 100]
    runs += [("c", "decode", "", f"few:{us}/30") for us in (5, 100, 300, 1000)]
    runs += [("c", "decode", "", f"waves:{us}/30") for us in (100, 300, 1000)]
    tenths = ("spin:5", "spin:20", "spin:300", "spin:1000", "few:1000", "waves:1000")
    runs += [("c", "decode", "", f"{work}/10") for work in tenths]
    runs += [("c", "decode", "", "nap:5/30")]
    runs += [("e", "decode", "", f"gpt@{units}") for units in THREADS]
    runs += [("e", "decode", percent, "gpt") for percent in THREADS.values()]
    runs += [("e", "decode", "", "gpt"), ("e", "decode", "", "gemm@40"), ("e", "decode", "", "copy@40")]
    runs += [("n", "decode", "", "native@16")]
    return [run for section in sections for run in runs if run[0] == section]


def base_of(work):
    """Returns the work without its context and share."""
    return work.partition("/")[0].partition("@")[0]


class Guest(colocate.Program):
    """guest.py as a client of MPS."""

    def __init__(self, env, **more):
        super().__init__([], "", dict(env, **more), "guest.py")

    def send(self, **order):
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()

    def ask(self, **order):
        self.send(**order)
        return checked(self.result(60))


def checked(*results):
    """Returns results that have no errors."""
    for result in results:
        if result.get("error") or result.get("failed"):
            raise RuntimeError(result.get("error") or result["failed"])
    return results if len(results) > 1 else results[0]


class Study:
    """Processes, and results so far."""

    def __init__(self, args, env):
        self.args, self.env, self.begin, self.rows, self.alone, self.tried = args, env, time.monotonic(), [], {}, {}
        self.runs, self.paced = plan(args.sections), {}
        self.rt = Guest(env, CUDA_MPS_CLIENT_PRIORITY="0")
        self.be = {name: self.best_effort(name) for name in {"", *(run[2] for run in self.runs)}}
        for guest in [self.rt, *self.be.values()]:
            guest.ready(90)
        self.build()
        print(f"# ready after {time.monotonic() - self.begin:.0f} s", flush=True)

    def best_effort(self, percent):
        more = dict(CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=percent) if percent else {}
        return Guest(self.env, CUDA_MPS_CLIENT_PRIORITY="1", **more)

    def build(self):
        """Builds what no length is measured for, in all processes at once."""
        names = lambda runs: sorted({run[3] for run in runs if "/" not in run[3]})
        self.rt.send(build=sorted({run[1] for run in self.runs}))
        for name, guest in self.be.items():
            guest.send(build=names([run for run in self.runs if run[2] == name]))
        for guest in [self.rt, *self.be.values()]:
            result = guest.result(90)
            print("#", result["multiprocessors"], result["failed"] or "", flush=True)

    def seconds(self, rt):
        return self.args.seconds * (LONG if rt == "llm" else 1)

    def measure_alone(self, rt):
        """Measures the real-time work alone, if that is 20 s old, or 40 s for llm."""
        now = time.monotonic()
        if now - self.tried.get(rt, -1e9) > (40 if rt == "llm" else 20):
            self.alone[rt] = self.rt.ask(work=rt, settle=0.1, seconds=self.seconds(rt), after=0)
            self.tried[rt] = now
            self.add(dict(section="alone", rt=self.alone[rt]))
        return self.alone[rt]

    def measure_base(self, client, work):
        """Measures best-effort work alone, once."""
        key = f"{client}|{work}"
        if key not in self.alone:
            seconds = min(0.35 if base_of(work) in TRAINERS else 0.22, self.args.seconds)
            self.alone[key] = self.be[client].ask(work=work, settle=0.06, seconds=seconds, after=0)
            self.add(dict(section="alone", client=client, be=self.alone[key]))
        return self.alone[key]

    def check_pace(self, work, full):
        """Measures paced work alone, once; ends the study if it doesn't keep its share."""
        if work in self.paced:
            return
        rate = self.be[""].ask(work=work, settle=0.06, seconds=0.2, after=0)["per_s"]
        self.paced[work] = 100 * rate / full["per_s"]
        if abs(self.paced[work] - float(work.partition("/")[2])) > 10:
            raise SystemExit(f"{work} alone: {self.paced[work]:.1f} %")

    def run(self, section, rt, client, work):
        base = base_of(work)
        full = self.measure_base("", base) if not base.startswith("nap") else None
        if base in TRAINERS:
            self.measure_base(client, work)
        built = self.be[client].ask(build=[work])
        us = built["lengths"].get(base if ":" in base else base + ":0")
        if "/" in work and full:
            self.check_pace(work, full)
        alone, seconds, settle = self.measure_alone(rt), self.seconds(rt), 0.3 if base in TRAINERS else 0.1
        self.be[client].send(work=work, settle=settle, seconds=seconds, after=0.06)
        self.rt.send(work=rt, settle=settle, seconds=seconds, after=0.06)
        first, second = checked(self.rt.result(60), self.be[client].result(60))
        kept = full and 100 * second["per_s"] / full["per_s"]
        row = dict(section=section, client=client, us=us, rt=first, be=second, kept=kept)
        self.add(dict(row, p50_ratio=first["p50"] / alone["p50"], p99_ratio=first["p99"] / alone["p99"]))

    def add(self, row):
        rt, be = row.get("rt", {}), row.get("be", {})
        self.rows.append(dict(row, at=round(time.monotonic() - self.begin, 1)))
        text = f"{row['section']:5} {rt.get('work', ''):8} {row.get('client', ''):3} {be.get('work', ''):14}"
        text += "".join(f" {rt.get(key, 0):8.3f}" for key in ("p50", "p99")) + f" {rt.get('steps', 0):5}"
        text += "".join(f" {row.get(key) or 0:6.3f}" for key in ("p50_ratio", "p99_ratio"))
        text += f" {row.get('kept') or 0:6.1f} {be.get('per_s', 0):9.1f}"
        print(text, f"{row.get('us') or 0:7.1f}", flush=True)
        if self.args.json:
            pathlib.Path(self.args.json).write_text(json.dumps(self.rows, indent=1))

    def all(self):
        left = []
        for run in self.runs:
            try:
                if time.monotonic() - self.begin < self.args.budget:
                    self.run(*run)
                else:
                    left.append(" ".join(run))
            except (RuntimeError, ZeroDivisionError) as error:
                print(*run, error, flush=True)
        for rate in ("gpt@132", "gpt@0-132", "gpt") if "e" in self.args.sections else ():
            print("alone", rate, self.be[""].ask(work=rate, settle=0.3, seconds=0.7, after=0)["per_s"], flush=True)
        print(f"{time.monotonic() - self.begin:.0f} s, left out: {', '.join(left) or 'nothing'}")

    def end(self):
        for guest in [self.rt, *self.be.values()]:
            guest.end()


def facts(env, path):
    """Prints facts of a process without MPS, of a client of MPS, and of one with few threads."""
    clients = dict(mps=env, mps_30=dict(env, CUDA_MPS_ACTIVE_THREAD_PERCENTAGE="30"), plain=dict(os.environ))
    guests = {name: Guest(env) for name, env in clients.items()}
    found = {}
    for name, guest in guests.items():
        try:
            guest.ready(90)
            found[name] = guest.ask(facts=1)
        except RuntimeError as error:
            found[name] = str(error)
        print(name, json.dumps(found[name], indent=1), flush=True)
        guest.end()
    if path:
        pathlib.Path(path).with_suffix(".facts.json").write_text(json.dumps(found, indent=1))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sections", default="f,a,d,c,e,n,h", type=lambda text: text.split(","))
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--budget", type=float, default=220)
    parser.add_argument("--json")
    parser.add_argument("--dry", action="store_true", help="print the runs alone")
    args = parser.parse_args()
    if args.dry:
        return print(*plan(args.sections), sep="\n")
    env = colocate.start_mps(dict(os.environ))
    try:
        if "f" in args.sections:
            facts(env, args.json)
        if args.sections != ["f"]:
            study = Study(args, env)
            try:
                study.all()
            finally:
                study.end()
    finally:
        colocate.end_mps(env)


main()
