#!/usr/bin/env python3
"""Study on a GPU: a prologue in machine code at the entry of kernels of our own.

    tools/sass_study/study.py CORPUS [--older OLDER.cubin] [--seconds 150] [--out FOLDER]

CORPUS is the program of `cargo build -p reef-ptx --example corpus`: it writes the twins to compare with. OLDER is `kernels.cu` as
ptxas 12.9 compiles it, whose CUBINs have an older layout. Needs nvcc, ptxas, compute-sanitizer and NumPy, and Triton for its
kernels; neither Rust nor a network. Prints as it goes; FOLDER/study.json has the same figures.

What a kernel must do, checked for each: the file loads; with the prologue passing, memory is that of the plain kernel, word by
word; with the stop word set, memory stays untouched and each block is in the map; a resume ends with the plain kernel's memory
and an empty map.
"""

import argparse
import ctypes as c
import functools
import json
import os
import random
import statistics
import struct
import subprocess
import sys
import tempfile
import time

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "twins"))
import cubin as patching  # noqa: E402
import run as twins  # noqa: E402
from run import P, SIZE, U32, U64, Case, Kernel, Words, alloc, call, down, stream, timed, up  # noqa: E402

VARIANTS = ("replace", "symbol", "front")
NAMES = "vadd product reduce wide dynamic bare bounded stack calls named cube jumps odd phases waits busy".split()
FEW = "vadd bare busy reduce product".split()
LONG = dict.fromkeys("vadd reduce cube odd named calls phases waits".split(), 1 << 26)
STOPPED = {**LONG, **dict.fromkeys("bare bounded jumps".split(), 1 << 24), "product": 1 << 20}  # numbers
DYNAMIC = 65536
WAVE = 132 * 8 * 256  # threads of one wave of an H200, in blocks of 256


class Own(Case):
    """A kernel of `kernels.cu`: plain, and one of its other forms. The kernel without parameters has its memory in its module."""

    def __init__(self, name, plain, other, numbers, memory, rounds=200):
        shared = DYNAMIC if name == "dynamic" else 0
        first, second = Kernel(plain, name, shared), Kernel(other, name, shared)
        blocks, block, grid = numbers // 256, (256, 1, 1), None
        if name == "product":
            side = min(1024, 1 << (numbers.bit_length() - 1) // 2)
            numbers, block, grid = side * side, (32, 32, 1), (side // 32, side // 32, 1)
        elif name == "bounded":
            block, grid = (128, 1, 1), (2 * blocks, 1, 1)
        elif name == "trade":
            block, grid = (384, 1, 1), (numbers // 384, 1, 1)
        elif name == "cube":
            block, grid = (8, 4, 8), (16, 4, blocks // 64)
        last = side if name == "product" else rounds if name == "busy" else numbers
        y, x = memory
        args = [] if name == "bare" else [*(struct.pack("<Q", at) for at in (y, x, x)), struct.pack("<I", last)]
        super().__init__(name, first, second, grid or (blocks, 1, 1), block, args, y)
        self.plain_result, self.numbers = y, numbers
        if name == "bare":
            self.plain_result, self.result = state(first), state(second)

    def run_twin(self, on, words, mode=0, _offset=None, _size=None):
        """A launch of run 1: a stop word of 1 stops it, and the run before has left blocks."""
        own = struct.pack("<QQII3I3IQQ", words.stop, words.map, mode, 1, 0, 0, 0, *self.grid, words.dirty, words.before)
        self.twin.launch(self.grid, self.block, [*self.args, own], on)


def state(kernel):
    at, size = U64(), SIZE()
    call("cuModuleGetGlobal_v2", c.byref(at), c.byref(size), kernel.module, b"state")
    return at.value


def fill(case, on):
    for at in {case.result, case.plain_result}:
        call("cuMemsetD32Async", U64(at), U32(0x3F000000), SIZE(case.numbers), on)


def contents(at, count, kind=np.uint32):
    words = np.empty(count, kind)
    down(at, words)
    return words


def probe(plain, other, names, numbers):
    """One line of JSON for each kernel: passes, stops, resumes."""
    on, words = stream(), Words(1 << 20)
    memory = alloc(4 * numbers), alloc(4 * numbers)
    up(memory[1], np.random.default_rng(1).random(numbers, dtype=np.float32))
    for name in names:
        try:
            case = Own(name, plain, other, numbers, memory)
            line = checks(case, on, words)
        except SystemExit as error:
            line = {"error": str(error), **log(other)}
        print("PROBE", json.dumps({"kernel": name, **line}), flush=True)


def checks(case, on, words):
    blocks = case.grid[0] * case.grid[1] * case.grid[2]
    sync = lambda: call("cuStreamSynchronize", on)
    fill(case, on)
    case.run_plain(on)
    sync()
    want = contents(case.plain_result, case.numbers)
    fill(case, on)
    case.run_twin(on, words)
    sync()
    passed = int((contents(case.result, case.numbers) != want).sum())
    call("cuMemsetD32_v2", U64(words.stop), U32(1), SIZE(1))
    fill(case, on)
    case.run_twin(on, words)
    sync()
    touched = int((contents(case.result, case.numbers) != 0x3F000000).sum())
    left = int(contents(words.map, blocks, np.uint8).sum())
    dirty = int(contents(words.dirty, 1)[0])
    call("cuMemsetD32_v2", U64(words.stop), U32(0), SIZE(1))
    case.run_twin(on, words, 1)
    sync()
    resumed = int((contents(case.result, case.numbers) != want).sum())
    rest = int(contents(words.map, blocks, np.uint8).sum())
    call("cuMemsetD32_v2", U64(words.dirty), U32(0), SIZE(1))
    ok = not (passed or touched or resumed or rest) and left == blocks and dirty == 1
    return {"ok": ok, "wrong_passing": passed, "touched_when_stopped": touched, "left": left, "blocks": blocks,
            "wrong_resumed": resumed, "map_left": rest, "registers": [case.plain.registers, case.twin.registers]}  # fmt: skip


def log(path):
    """What the driver says of a file that it refuses."""
    with open(path, "rb") as file:
        image = file.read()
    text, module = c.create_string_buffer(4096), P()
    options, values = (c.c_int * 2)(5, 6), (P * 2)(c.cast(text, P), P(4096))
    code = twins.cuda.cuModuleLoadDataEx(c.byref(module), image, 2, options, values)
    return {"load_code": code, "driver_says": text.value.decode(errors="replace")}


def probes(what, plain, other, names=NAMES, numbers=1 << 18, prefix=(), limit=90, lines=("SUMMARY", "Error")):
    """Runs `probe` in a process of its own, because a wrong kernel spoils its context."""
    command = [*prefix, sys.executable, os.path.abspath(__file__), "--probe", plain, other, ",".join(names), str(numbers)]
    begin = time.monotonic()
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit)
        output, code = done.stdout + done.stderr, done.returncode
    except subprocess.TimeoutExpired as error:
        output, code = (error.stdout or b"").decode(errors="replace"), "timeout"
    rows = [json.loads(line[6:]) for line in output.splitlines() if line.startswith("PROBE ")]
    good = sum(row.get("ok", False) for row in rows)
    bad = [row for row in rows if not row.get("ok")]
    summary = [line.strip(" =") for line in output.splitlines() if any(word in line for word in lines)][:4]
    missing = len(names) - len(rows)
    print(f"{what}: {good} of {len(names)} right, {time.monotonic() - begin:.1f} s, code {code}; {summary}", flush=True)
    for row in bad[:3]:
        print("   ", json.dumps(row), flush=True)
    if missing:
        print("   ", output[-600:], flush=True)
    return {"what": what, "right": good, "of": len(names), "code": code, "bad": bad, "missing": missing, "tool": summary}


def patched(source, text, out, variant, names=None, skip=(), programs="mended"):
    made = patching.read(source)
    changes, refused = {}, {}
    for name in names or sorted(made.kernels()):
        try:
            changes[name] = patching.patch(made, name, text, variant, skip=set(skip))
        except ValueError as error:
            refused[name] = str(error)
    with open(out, "wb") as file:
        file.write(made.bytes(programs))
    return changes, refused


def build(corpus, work):
    """plain CUBIN, the same for sm_90a, text of the prologue, name -> CUBIN of the twin."""
    source = os.path.join(HERE, "kernels.cu")
    plain, special, ptx = (os.path.join(work, name) for name in ("plain.cubin", "special.cubin", "kernels.ptx"))
    forms = (("90", "-cubin", plain), ("90a", "-cubin", special), ("90", "-ptx", ptx))
    jobs = [subprocess.Popen(["nvcc", "-arch=sm_" + arch, form, source, "-o", out]) for arch, form, out in forms]
    for job in jobs:
        if job.wait():
            raise SystemExit("nvcc")
    made = {}
    try:
        files = [ptx, *twins.triton_kernels(work, extra := {})]
    except ImportError:
        files, extra = [ptx], {}
    table = subprocess.run([corpus, "--twins", work, *files], check=True, capture_output=True, text=True).stdout
    jobs = []
    for line in table.splitlines():
        file, name, *_, twin = line.split("\t")
        if twin:
            arch = "sm_90a" if ".target sm_90a" in open(twin).read() else "sm_90"
            jobs.append(subprocess.Popen(["ptxas", "-arch=" + arch, twin, "-o", twin + ".cubin"]))
            made[name] = (file if file != ptx else plain, twin + ".cubin", extra.get(file, {}))
    for job in jobs:
        if job.wait():
            raise SystemExit("ptxas")
    return plain, special, patching.prologue_text(made["vadd"][1].removesuffix(".cubin")), made


def stops(case, differs, on, other, words, end, resume=1, runs_at_most=10**9):
    """Runs with stops at random times. Returns counts."""
    want, counter = alloc(4 * case.numbers), alloc(4)
    fill(case, on)
    case.run_plain(on)
    call("cuMemcpyDtoDAsync_v2", U64(want), U64(case.plain_result), SIZE(4 * case.numbers), on)
    call("cuMemsetD32Async", U64(counter), U32(0), SIZE(1), on)
    compare = [struct.pack("<Q", case.result), struct.pack("<Q", want), struct.pack("<I", case.numbers), struct.pack("<Q", counter)]
    length = statistics.median(timed(lambda: case.run_twin(on, words), on, 5)) / 1e3
    blocks = case.grid[0] * case.grid[1] * case.grid[2]
    runs = hits = partly = 0
    while runs < runs_at_most and time.monotonic() < end:
        fill(case, on)
        call("cuStreamSynchronize", on)
        for turn in range(30):
            call("cuMemsetD32Async", U64(words.dirty), U32(0), SIZE(1), on)
            case.run_twin(on, words, resume if turn else 0)
            if turn < 20:
                wait = time.perf_counter() + random.uniform(0, length / (1 + turn % 4))
                while time.perf_counter() < wait:
                    pass
                call("cuMemsetD32Async", U64(words.stop), U32(1), SIZE(1), other)
            call("cuStreamSynchronize", on)
            call("cuMemsetD32Async", U64(words.stop), U32(0), SIZE(1), other)
            call("cuStreamSynchronize", other)
            if contents(words.dirty, 1)[0] == 0:
                break
            hits += 1
            if runs % 16 == 0:
                partly += int(0 < contents(words.map, blocks, np.uint8).sum() < blocks)
        runs += 1
        differs.launch((132 * 8, 1, 1), (256, 1, 1), compare, on)
    call("cuStreamSynchronize", on)
    wrong, left = int(contents(counter, 1)[0]), int(contents(words.map, blocks, np.uint8).sum())
    call("cuMemsetD8_v2", U64(words.map), 0, SIZE(blocks))
    call("cuMemsetD32_v2", U64(words.dirty), U32(0), SIZE(1))
    call("cuMemFree_v2", U64(want))
    return {"runs": runs, "stops": hits, "partial_seen": partly, "wrong_words": wrong, "map_left": left, "ms": length * 1e3}


def compare_costs(forms, on, words, rounds=14, batch=4):
    """Median ms of a launch of plain and of each form, in turn. Launches are in graphs, so that the host's time isn't in them."""
    runs = {"plain": lambda: next(iter(forms.values())).run_plain(on)}
    for name, case in forms.items():
        runs[name] = lambda case=case: case.run_twin(on, words)
    graphs, times = {name: in_graph(run, on, batch) for name, run in runs.items()}, {name: [] for name in runs}
    for once in graphs.values():
        timed(once, on, 3)
    for turn in range(rounds):
        order = list(runs)
        random.shuffle(order)
        for name in order:
            times[name] += timed(graphs[name], on, 4)
    return {name: statistics.median(values) / batch for name, values in times.items()}


def in_graph(run, on, count):
    """Function that launches a graph of some runs, one after the other."""
    graph, ready = P(), P()
    call("cuStreamBeginCapture_v2", on, 2)
    for _ in range(count):
        run()
    call("cuStreamEndCapture", on, c.byref(graph))
    call("cuGraphInstantiateWithFlags", c.byref(ready), graph, U64(0))
    return lambda: call("cuGraphLaunch", ready, on)


def in_a_row(run, on, count=200):
    """Microseconds of each of many launches of a graph, one after the other."""
    once = in_graph(run, on, count)
    timed(once, on, 3)
    return statistics.median(timed(once, on, 15)) * 1e3 / count


def slices_in_graphs(case, on, words, waves, per_slice, say):
    """A kernel as one node of a graph, and as slices with and without a gate before each, in us."""
    gate = P()
    call("cuMemHostAlloc", c.byref(gate), SIZE(4096), 2)
    c.memset(gate, 0, 4096)
    step = 1056 * per_slice

    def slices(gates):
        for at in range(0, case.grid[0], step):
            if gates:
                call("cuStreamWaitValue32_v2", on, U64(gate.value), U32(0), 1)
            own = struct.pack("<QQII3I3IQQ", words.stop, words.map, 0, 1, at, 0, 0, *case.grid, words.dirty, words.before)
            size = (min(step, case.grid[0] - at), 1, 1)
            case.twin.launch(size, case.block, [*case.args, own], on)

    forms = {"plain": lambda: case.run_plain(on), "twin": lambda: case.run_twin(on, words)}
    forms |= {"slices": lambda: slices(False), "slices, gates": lambda: slices(True)}
    graphs, times = {name: in_graph(run, on, 1) for name, run in forms.items()}, {name: [] for name in forms}
    for turn in range(20):
        for name, once in graphs.items():
            times[name] += timed(once, on, 2)
    found = {name: statistics.median(values) * 1e3 for name, values in times.items()}
    number = -(-case.grid[0] // step)
    say(f"slices in a graph, {waves} waves in {number}: " + ", ".join(f"{k} {v:.1f}" for k, v in found.items()) + " us")
    return {**found, "slices of": number}


class Costs:
    """Cost at entry. `files`: form -> CUBIN of all kernels. Figures go to `table`."""

    def __init__(self, plain, files, made, memory, on, words, say):
        self.plain, self.files, self.made, self.memory, self.on, self.words, self.say = plain, files, made, memory, on, words, say
        self.table = {}
        case = Own("busy", plain, files["replace"], WAVE, memory, 20000)
        self.per_round = statistics.median(timed(lambda: case.run_plain(on), on, 9)[2:]) * 1e3 / 20000

    def forms(self, name, numbers, micros=0):
        """A kernel in each form. Only `busy` takes a time of its blocks; a jump table has no form `front`."""
        rounds = round(micros / self.per_round)
        files = {form: path for form, path in self.files.items() if form != "front" or name != "jumps"}
        if name in self.made:
            files["twin"] = self.made[name][1]
        return {form: Own(name, self.plain, path, numbers, self.memory, rounds) for form, path in files.items()}

    def all(self):
        for micros, waves in ((10, 100), (100, 20), (10, 1), (100, 1)):
            self.kernel("busy", WAVE * waves, micros, f"busy, T = {micros} us, {waves} waves of 1,056 blocks")
        for name, size in {"vadd": 26, "cube": 26, "product": 20, "reduce": 26, "wide": 22, "jumps": 22}.items():
            self.kernel(name, 1 << size, 0, f"{name}, {1 << size} numbers")
        for blocks, micros in ((132, 0), (1056, 0), (1056, 10), (1056, 100)):
            self.launch(blocks, micros)
        for micros, waves, per_slice in ((10, 200, 20), (10, 200, 5), (100, 20, 2)):
            case = self.forms("busy", WAVE * waves, micros)["twin"]
            found = slices_in_graphs(case, self.on, self.words, waves, per_slice, self.say)
            self.table[f"slices in a graph, T = {micros} us, {waves} waves, {per_slice} a slice, us"] = found
        self.leaving()
        self.stop_to_end()
        return self.table

    def kernel(self, name, numbers, micros, title):
        self.table[title] = found = compare_costs(self.forms(name, numbers, micros), self.on, self.words)
        self.say(f"cost {title}: " + row(found))

    def launch(self, blocks, micros):
        """One wave or less, many times in a row."""
        every, on = self.forms("busy", 256 * blocks, micros), self.on
        plain = lambda: in_a_row(lambda: every["replace"].run_plain(on), on)
        found = {"plain": plain()}
        for form, case in every.items():
            found[form] = in_a_row(lambda: case.run_twin(on, self.words), on)
        found["plain again"] = plain()
        self.table[f"graph of 200 launches, {blocks} blocks of {micros} us: us a launch"] = found
        figures = ", ".join(f"{form} {value:.2f}" for form, value in found.items())
        self.say(f"in a graph, a launch of {blocks} blocks of {micros} us, us: {figures}")

    def leaving(self):
        """Rate at which blocks leave that find the stop word set."""
        call("cuMemsetD32_v2", U64(self.words.stop), U32(1), SIZE(1))
        every, blocks = self.forms("vadd", 1 << 26), (1 << 26) // 256
        for form, case in every.items():
            micros = statistics.median(timed(lambda: case.run_twin(self.on, self.words), self.on, 9)) * 1e3
            self.table[f"leaving, blocks per us, {form}"] = blocks / micros
            self.say(f"all {blocks} blocks leave, {form}: {blocks / micros:.0f} blocks per us")
        call("cuMemsetD32_v2", U64(self.words.stop), U32(0), SIZE(1))
        call("cuMemsetD8_v2", U64(self.words.map), 0, SIZE(blocks))
        call("cuMemsetD32_v2", U64(self.words.dirty), U32(0), SIZE(1))

    def stop_to_end(self):
        """How soon a stopped kernel ends: blocks of 100 us, all of 10 ms."""
        case, times = self.forms("busy", WAVE * 100, 100)["replace"], []
        for _ in range(60):
            case.run_twin(self.on, self.words)
            time.sleep(random.uniform(0.001, 0.006))
            begin = time.perf_counter()
            call("cuMemsetD32Async", U64(self.words.stop), U32(1), SIZE(1), self.words.other)
            call("cuStreamSynchronize", self.on)
            times.append((time.perf_counter() - begin) * 1e6)
            call("cuMemsetD32_v2", U64(self.words.stop), U32(0), SIZE(1))
            case.run_twin(self.on, self.words, 1)
            call("cuStreamSynchronize", self.on)
        times.sort()
        self.table["stop to end, us: p50, p90, max; blocks of 100 us"] = [times[30], times[54], times[-1]]
        self.say(f"stop to end of a kernel of 10 ms with blocks of 100 us: p50 {times[30]:.0f}, p90 {times[54]:.0f}, max {times[-1]:.0f} us")
        call("cuMemsetD32_v2", U64(self.words.dirty), U32(0), SIZE(1))


def row(found):
    plain = found["plain"]
    return f"plain {plain * 1e3:.2f} us; " + ", ".join(f"{k} {v / plain:.4f}" for k, v in found.items() if k != "plain")


def triton(made, text, work, on, words, say):
    """Triton's kernels: its CUBINs are patched as they are."""
    names = [name for name, (_, _, more) in made.items() if more]
    forms = {}
    for name in names:
        for variant in VARIANTS[:2]:
            out = os.path.join(work, f"{name}.{variant}.cubin")
            changes, refused = patched(made[name][0], text, out, variant, [name])
            forms.setdefault(name, {})[variant] = out
            say(f"triton {name} {variant}: {changes or refused}")
        forms[name]["twin"] = made[name][1]
    table = {}
    for form in (*VARIANTS[:2], "twin"):
        for case in twins.cases({name: (made[name][0], forms[name][form], made[name][2]) for name in names}, 1 << 24):
            case.plain_result, case.numbers = case.result, 1 << 24
            case.run_twin = functools.partial(Own.run_twin, case)
            table.setdefault(case.name, {})[form] = case
    out = {}
    for name, every in table.items():
        found = {form: checks(case, on, words) for form, case in every.items()}
        cost = compare_costs(every, on, words)
        out[name] = {"checks": found, "ms": cost}
        say(f"triton {name}: right {[f for f, v in found.items() if v['ok']]}, " + row(cost))
    return out


def loads(plain, special, text, older, files, results, work, say, keep):
    """Loads, checks, steps left out, and tools. Returns the lines of all probes."""
    every = []
    for variant in VARIANTS:
        names = [n for n in NAMES if n not in results["changes " + variant]["refused"]]
        every.append(probes(f"variant {variant}", plain, files[variant], names))
    if older:
        for variant in VARIANTS[:2]:
            out = os.path.join(work, f"older.{variant}.cubin")
            patched(older, text, out, variant)
            every.append(probes(f"variant {variant}, CUBIN of ptxas 12.9", older, out))
    out = os.path.join(work, "special.replace.cubin")
    patched(special, text, out, "replace")
    every.append(probes("variant replace, sm_90a, with setmaxnreg", special, out, [*NAMES, "trade"]))
    for step in (*patching.STEPS, "all"):
        out = os.path.join(work, f"without.{step}.cubin")
        patched(plain, text, out, "replace", skip=patching.STEPS if step == "all" else [step])
        every.append(probes(f"replace without {step}", plain, out, FEW, limit=20))
    for programs in ("old", "none"):
        out = os.path.join(work, f"programs.{programs}.cubin")
        patched(plain, text, out, "replace", programs=programs)
        every.append(probes(f"replace, program headers {programs}", plain, out, FEW, limit=20))
    keep("probes", every)
    tools = []
    for tool in ("memcheck", "racecheck", "synccheck", "initcheck"):
        prefix = ["compute-sanitizer", "--tool", tool]
        tools.append(probes(f"compute-sanitizer {tool}", plain, files["replace"], numbers=1 << 14, prefix=prefix, limit=40))
    out = os.path.join(work, "without.parameter.cubin")
    prefix = ["compute-sanitizer", "--tool", "memcheck"]
    lines = ("Invalid", " at ", "SUMMARY")
    tools.append(probes("compute-sanitizer memcheck, no hidden parameter", plain, out, ["vadd"], 1 << 14, prefix, 40, lines))
    keep("sanitizer", tools)
    for command in (["nvdisasm", "-hex"], ["cuobjdump", "-sass"], ["cuobjdump", "-elf"]):
        done = subprocess.run([*command, files["replace"]], capture_output=True, text=True)
        say(f"{' '.join(command)}: code {done.returncode}, {len(done.stdout.splitlines())} lines, {done.stderr[:200]!r}")
        keep(" ".join(command), {"code": done.returncode, "lines": len(done.stdout.splitlines()), "errors": done.stderr[:400]})

    return every


def device():
    call("cuInit", 0)
    context = P()
    call("cuDevicePrimaryCtxRetain", c.byref(context), 0)
    call("cuCtxSetCurrent", context)
    name, version = c.create_string_buffer(100), c.c_int()
    call("cuDeviceGetName", name, 99, 0)
    call("cuDriverGetVersion", c.byref(version))
    return f"{name.value.decode()}, CUDA {version.value}"


def main():
    if sys.argv[1:2] == ["--probe"]:
        device()
        plain, other, names, numbers = sys.argv[2:]
        return probe(plain, other, names.split(","), int(numbers))
    parser = argparse.ArgumentParser(description="a prologue in machine code: does it load, is it right, what does it cost")
    parser.add_argument("corpus")
    parser.add_argument("--older")
    parser.add_argument("--seconds", type=float, default=150)
    parser.add_argument("--out", default=".")
    parser.add_argument("--costs", action="store_true", help="measure costs alone")
    args = parser.parse_args()
    random.seed(1)
    begin, results = time.monotonic(), {}

    def say(text):
        print(f"[{time.monotonic() - begin:5.1f}] {text}", flush=True)

    def keep(name, value):
        results[name] = value
        with open(os.path.join(args.out, "study.json"), "w") as file:
            json.dump(results, file, indent=1)

    with tempfile.TemporaryDirectory() as work:
        plain, special, text, made = build(args.corpus, work)
        files = {}
        for variant in VARIANTS:
            files[variant] = os.path.join(work, variant + ".cubin")
            changes, refused = patched(plain, text, files[variant], variant)
            say(f"patched {variant}: {len(changes)}, refused {refused}")
            keep("changes " + variant, {"changes": changes, "refused": refused})
        every = [] if args.costs else loads(plain, special, text, args.older, files, results, work, say, keep)
        keep("device", device())
        say(results["device"])
        on, words = stream(), Words(1 << 20)
        words.other = stream(-5)
        numbers = 1 << 26
        memory = alloc(4 * numbers), alloc(4 * numbers)
        part = np.random.default_rng(1).random(1 << 24, dtype=np.float32)
        for at in range(0, numbers, 1 << 24):
            up(memory[1] + 4 * at, part)
        bad = {e["what"].removeprefix("variant ") for e in every if e["bad"]} | {"symbol"}
        good = {variant: path for variant, path in files.items() if variant not in bad}
        if "replace" not in good:
            return say("replace is not right: no figures")
        keep("costs", Costs(plain, good, made, memory, on, words, say).all())
        if any(more for _, _, more in made.values()):
            keep("triton", triton(made, text, work, on, words, say))
        if args.costs:
            return say("end")
        differs = Kernel(plain, "differs")
        found, end = {}, begin + args.seconds
        tests = [(name, "replace") for name in NAMES] + [(name, "front") for name in ("vadd", "reduce", "busy")]
        for at, (name, variant) in enumerate(tests):
            case = Own(name, plain, files[variant], STOPPED.get(name, 1 << 22), memory, 4000)
            until = time.monotonic() + max(1.0, (end - time.monotonic()) / (len(tests) - at))
            found[f"{name}, {variant}"] = stops(case, differs, on, words.other, words, until)
            say(f"stops {name} {variant}: {found[f'{name}, {variant}']}")
            keep("stops", found)
        for name in ("vadd", "reduce", "busy"):
            case = Own(name, plain, files["replace"], STOPPED.get(name, 1 << 22), memory, 4000)
            broken = stops(case, differs, on, words.other, words, time.monotonic() + 2, resume=0, runs_at_most=30)
            say(f"stops {name}, each resume as a first run: {broken}")
            keep(f"broken {name}", broken)
    say("end")


if __name__ == "__main__":
    main()
