"""Ways to let best-effort work run next to a real-time program that never pauses, under MPS.

candidates.py [--sections f,a,d,c,g,l,h] [--seconds S] [--budget S] [--json FILE] [--dry]

Sections:
    f   facts: green contexts of an MPS client, and graphs on them
    a   few multiprocessors: the trainer on a green context, or with as many threads of MPS
    d   by resource: five kinds of kernels, at a share of the time, or with few threads of MPS
    c   by length: kernels of 5 to 1,000 us, at a share of the time
    g   as a, with a trainer of transformers; l, h: some of c next to the language model, and next to products
`llm` and `train` are those of programs.py, `native` is `train` without cuDNN's batch norms, `gpt` trains transformers,
`decode` is a smaller `llm`, and `compute` a chain of products. Others are KIND[:US][@SMS][/SHARE]: `gemm`, `copy`, `sweep` (the L2 cache),
`small`, `spin:US` (arithmetic, one wave that fills the device), `few:US` (16 blocks), `waves:US` (blocks of 20 us), and
`nap:US` (nothing but the pace). `@28` is a green context of 28 multiprocessors, `@0-132` one step in turn on
all, without and with one. `/30` launches a unit whenever 30 % of the time is over that it takes alone.
Latency is the 99th percentile of a lap, by that alone shortly before. Kept is the rate of units, by the rate
alone with all threads, one behind the other.
"""
import argparse
import json
import os
import pathlib
import time

import beside

THREADS = {8: "6", 16: "12", 28: "21", 40: "30"}  # multiprocessors, and percent of MPS that give them
KINDS = ["gemm", "copy", "sweep", "small", "spin:100"]
LENGTHS = [5, 20, 50, 100, 300, 1000]
LONG = 4.05  # times --seconds: laps of llm are that much longer


def plan(sections):
    """Returns the runs: section, real-time work, client of the best-effort work ("": all threads), its work."""
    runs = [("a", "llm", "", f"native@{units}") for units in THREADS]
    runs += [("a", "llm", percent, "native") for percent in THREADS.values()] + [("a", "llm", "21", "train"), ("a", "llm", "", "native")]
    for rt, percents in (("decode", ("12", "30")), ("compute", ("30",))):
        runs += [("d", rt, "", f"{kind}/{share}") for kind in KINDS for share in (10, 30)]
        runs += [("d", rt, percent, kind) for kind in KINDS for percent in percents]
    runs += [("d", "decode", "", f"{kind}@{units}") for kind in ("gemm", "copy") for units in (16, 40)]
    for share, lengths in ((30, LENGTHS), (10, LENGTHS[::2] + LENGTHS[-1:])):
        runs += [("c", "decode", "", f"{kind}:{us}/{share}") for kind in ("spin", "few") for us in lengths]
        runs += [("c", "decode", "", f"waves:{us}/{share}") for us in (100, 300, 1000)]
    runs += [("c", "decode", "", f"nap:{us}/30") for us in (5, 100)]
    runs += [("g", "llm", "", "gpt@28"), ("g", "llm", "21", "gpt")]
    runs += [("l", "llm", "", f"{work}/30") for work in ("spin:20", "spin:300", "waves:300", "few:300")]
    runs += [("h", "compute", "", f"spin:{us}/30") for us in LENGTHS]
    return [run for section in sections for run in runs if run[0] == section]


class Guest(beside.Program):
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
        self.runs = plan(args.sections)
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
            failed = guest.result(90)["failed"]
            print("# failed:", failed, flush=True) if failed else None

    def seconds(self, rt):
        return self.args.seconds * (LONG if rt == "llm" else 1)

    def measure_alone(self, rt):
        """Measures the real-time work alone, if it is 15 s old."""
        now = time.monotonic()
        if now - self.tried.get(rt, -1e9) > (40 if rt == "llm" else 15):
            self.alone[rt] = self.rt.ask(work=rt, settle=0.1, seconds=self.seconds(rt), after=0)
            self.tried[rt] = now
            self.add(dict(section="alone", rt=self.alone[rt]))
        return self.alone[rt]

    def measure_base(self, client, work):
        """Measures best-effort work alone, once."""
        key = f"{client}|{work}"
        if key not in self.alone:
            self.alone[key] = self.be[client].ask(work=work, settle=0.1, seconds=min(0.35, self.args.seconds), after=0)
            self.add(dict(section="alone", client=client, be=self.alone[key]))
        return self.alone[key]

    def run(self, section, rt, client, work):
        base = work.partition("/")[0].partition("@")[0]
        full = self.measure_base("", base) if not base.startswith("nap") else None
        if "/" not in work:
            self.measure_base(client, work)
        self.be[client].ask(build=[work])
        alone, seconds, settle = self.measure_alone(rt), self.seconds(rt), 0.3 if base in ("train", "native", "gpt") else 0.12
        self.be[client].send(work=work, settle=settle, seconds=seconds, after=0.1)
        self.rt.send(work=rt, settle=settle, seconds=seconds, after=0.1)
        first, second = checked(self.rt.result(60), self.be[client].result(60))
        row = dict(section=section, client=client, rt=first, be=second, kept=full and 100 * second["per_s"] / full["per_s"])
        self.add(dict(row, p50_ratio=first["p50"] / alone["p50"], p99_ratio=first["p99"] / alone["p99"]))

    def add(self, row):
        rt, be = row.get("rt", {}), row.get("be", {})
        self.rows.append(dict(row, at=round(time.monotonic() - self.begin, 1)))
        text = f"{row['section']:5} {rt.get('work', ''):8} {row.get('client', ''):3} {be.get('work', ''):14}"
        text += "".join(f" {rt.get(key, 0):8.3f}" for key in ("p50", "p99")) + f" {rt.get('steps', 0):5}"
        text += f" {row.get('p50_ratio', 0):6.3f} {row.get('p99_ratio', 0):6.3f} {row.get('kept') or 0:6.1f} {be.get('per_s', 0):9.1f}"
        print(text, flush=True)
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
        for rate in ("native@132", "native@0-132", "native") if "a" in self.args.sections else ():
            print("alone", rate, self.be[""].ask(work=rate, settle=0.4, seconds=1, after=0)["per_s"], flush=True)
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
    parser.add_argument("--sections", default="f,a,d,c,g,l,h", type=lambda text: text.split(","))
    parser.add_argument("--seconds", type=float, default=1.05)
    parser.add_argument("--budget", type=float, default=220)
    parser.add_argument("--json")
    parser.add_argument("--dry", action="store_true", help="print the runs alone")
    args = parser.parse_args()
    if args.dry:
        return print(*plan(args.sections), sep="\n")
    env = beside.start_mps(dict(os.environ))
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
        beside.end_mps(env)


main()
