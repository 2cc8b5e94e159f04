#!/usr/bin/env python3
"""Variants of kernels on a GPU: what they cost, whether stopped ones end right, and how soon other work starts.

    tools/variants/run.py CORPUS [--stops 10000] [--seconds 120] [--out FILE]

CORPUS is the program of `cargo build -p reef-ptx --example corpus`. Needs nvcc, ptxas and NumPy, and Triton for its kernels;
neither Rust nor a network. Prints as it goes, and writes the table to FILE.
"""

import argparse
import ctypes as c
import os
import random
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import time

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
cuda = c.CDLL("libcuda.so.1")
P, U64, U32, SIZE = c.c_void_p, c.c_uint64, c.c_uint32, c.c_size_t


def check(code, what):
    if code:
        raise SystemExit(f"{what}: code {code}")


def call(name, *args):
    check(getattr(cuda, name)(*args), name)


def alloc(count):
    at = U64()
    call("cuMemAlloc_v2", c.byref(at), SIZE(count))
    return at.value


def up(at, array):
    call("cuMemcpyHtoD_v2", U64(at), array.ctypes.data_as(P), SIZE(array.nbytes))


def down(at, array):
    call("cuMemcpyDtoH_v2", array.ctypes.data_as(P), U64(at), SIZE(array.nbytes))


def stream(priority=0):
    handle = P()
    call("cuStreamCreateWithPriority", c.byref(handle), 1, priority)
    return handle


class Kernel:
    """A kernel from a CUBIN, by name."""

    def __init__(self, cubin, name, shared=0):
        self.module, self.function, self.shared = P(), P(), shared
        call("cuModuleLoad", c.byref(self.module), cubin.encode())
        call("cuModuleGetFunction", c.byref(self.function), self.module, name.encode())
        if shared > 48 << 10:
            call("cuFuncSetAttribute", self.function, 8, shared)
        value = c.c_int()
        call("cuFuncGetAttribute", c.byref(value), 4, self.function)
        self.registers = value.value

    def launch(self, grid, block, args, on):
        kept = [c.create_string_buffer(arg, len(arg)) for arg in args]
        params = (P * len(kept))(*[c.cast(arg, P) for arg in kept])
        call("cuLaunchKernel", self.function, *grid, *block, self.shared, on, params, None)


class Case:
    """A kernel with its grid, and the arguments that it has with and without its variant."""

    def __init__(self, name, plain, variant, grid, block, args, result):
        self.name, self.plain, self.variant, self.grid, self.block = name, plain, variant, grid, block
        self.args, self.result = args, result

    def run_plain(self, on):
        self.plain.launch(self.grid, self.block, self.args, on)

    def run_variant(self, on, words, mode=0, offset=(0, 0, 0), size=None):
        # Each is run 1, which a stop word of 1 stops; the run before has always left blocks.
        own = struct.pack("<QQII3I3IQQ", words.stop, words.map, mode, 1, *offset, *self.grid, words.dirty, words.before)
        self.variant.launch(size or self.grid, self.block, [*self.args, own], on)


class Words:
    """Stop word, map and the words that say that a block was stopped in a run and in the one before."""

    def __init__(self, blocks):
        self.stop, self.dirty, self.before, self.map = alloc(128), alloc(128), alloc(128), alloc(blocks)
        for at, count in ((self.stop, 128), (self.dirty, 128), (self.before, 128), (self.map, blocks)):
            call("cuMemsetD8_v2", U64(at), 0, SIZE(count))
        call("cuMemsetD32_v2", U64(self.before), U32(1), SIZE(1))


def build(corpus, work):
    """Makes plain and variant CUBINs. Returns name -> (plain, variant)."""
    files = []
    source = os.path.join(work, "kernels.ptx")
    subprocess.run(["nvcc", "-arch=sm_90", "-ptx", os.path.join(HERE, "kernels.cu"), "-o", source], check=True)
    files.append(source)
    extra = {}
    try:
        files += triton_kernels(work, extra)
    except ImportError:
        print("skipped: Triton's kernels, there is no Triton", flush=True)
    table = subprocess.run([corpus, "--variants", work, *files], check=True, capture_output=True, text=True).stdout
    made, jobs = {}, []
    for line in table.splitlines():
        file, name, *_, variant = line.split("\t")
        if not variant:
            print(f"no variant: {line}", flush=True)
            continue
        alone = variant[: -len("ptx")] + "alone"
        for text, out in ((alone, variant[:-3] + "plain.cubin"), (variant, variant[:-3] + "variant.cubin")):
            arch = "sm_90a" if ".target sm_90a" in open(text).read() else "sm_90"
            command = ["ptxas", "-arch=" + arch, text, "-o", out]
            jobs.append((command, subprocess.Popen(command)))
        made[name] = (variant[:-3] + "plain.cubin", variant[:-3] + "variant.cubin", extra.get(file, {}))
    for command, job in jobs:
        check(job.wait(), " ".join(command))
    return made


def triton_kernels(work, extra):
    import triton
    import triton.language as tl
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    path = os.path.join(work, "triton_kernels.py")
    with open(path, "w") as file:
        file.write(TRITON)
    sys.path.insert(0, work)
    import triton_kernels as kernels

    files = []
    for name, signature, constants, warps in (
        ("t_matmul", {"y": "*fp32", "a": "*fp16", "b": "*fp16", "n": "i32"}, {"BM": 128, "BN": 128, "BK": 32}, 8),
        ("t_softmax", {"y": "*fp32", "x": "*fp32", "b": "*fp32", "n": "i32"}, {"BLOCK": 1024}, 4),
        ("t_add", {"y": "*fp32", "x": "*fp32", "b": "*fp32", "n": "i32"}, {"BLOCK": 1024}, 4),
    ):
        signature = {**signature, **{key: "constexpr" for key in constants}}
        source = ASTSource(fn=getattr(kernels, name), signature=signature, constexprs=constants)
        made = triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": warps})
        cubin = os.path.join(work, name + ".cubin")
        with open(cubin, "wb") as file:
            file.write(made.asm["cubin"])
        files.append(cubin)
        extra[cubin] = {"shared": made.metadata.shared, "threads": warps * 32}
    return files


TRITON = r"""
import triton, triton.language as tl
@triton.jit
def t_matmul(y, a, b, n, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, k = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, BK)
    c = tl.program_id(1) * BN + tl.arange(0, BN)
    sums = tl.zeros((BM, BN), tl.float32)
    for at in range(0, n, BK):
        left = tl.load(a + m[:, None] * n + at + k[None, :])
        right = tl.load(b + (at + k)[:, None] * n + c[None, :])
        sums = tl.dot(left, right, sums)
    tl.store(y + m[:, None] * n + c[None, :], sums)
@triton.jit
def t_softmax(y, x, b, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    row = tl.load(x + at)
    e = tl.exp(row - tl.max(row, 0))
    tl.store(y + at, e / tl.sum(e, 0))
@triton.jit
def t_add(y, x, b, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(y + at, mask=at < n) * 1.5 + tl.load(x + at, mask=at < n), mask=at < n)
"""


def cases(made, big):
    """Kernels over so many numbers."""
    word = lambda value: struct.pack("<I", value)
    part = min(big, 1 << 24)
    x = np.random.default_rng(1).random(part, dtype=np.float32)
    a, y = alloc(4 * big), alloc(4 * big)
    for at in range(0, big, part):
        up(a + 4 * at, x)
    side = int(min(big, 1 << 26) ** 0.5)
    half = alloc(2 * side * side)
    for at in range(0, side * side, part):
        up(half + 2 * at, x.astype(np.float16))
    pointers = [struct.pack("<Q", at) for at in (y, a, a)]
    halves = [struct.pack("<Q", at) for at in (y, half, half)]
    sizes = {
        "saxpy": ((132 * 64, 1, 1), (256, 1, 1), pointers, big),
        "stencil": ((big // 256, 1, 1), (256, 1, 1), pointers, big),
        "softmax": ((big // 1024, 1, 1), (256, 1, 1), pointers, 0),
        "product": ((2048 // 32, 2048 // 32, 1), (32, 32, 1), pointers, 2048),
        "add_in_place": ((big // 1024, 1, 1), (1024, 1, 1), pointers, big),
        "count_in_place": ((big // 1024, 1, 1), (1024, 1, 1), pointers, big),
        "busy": ((132 * 8 * 16, 1, 1), (256, 1, 1), pointers, 4000),
        "t_matmul": ((side // 128, side // 128, 1), None, halves, side),
        "t_softmax": ((big // 1024, 1, 1), None, pointers, big),
        "t_add": ((big // 1024, 1, 1), None, pointers, big),
    }
    for name, (grid, block, places, count) in sizes.items():
        if name not in made:
            continue
        plain, variant, more = made[name]
        shared = more.get("shared", 0)
        block = block or (more["threads"], 1, 1)
        # Triton's kernels end with two parameters of its runtime's, which are null here.
        args = [*places, word(count)] + ([b"\0" * 8] * 2 if more else [])
        case = Case(name, Kernel(plain, name, shared), Kernel(variant, name, shared), grid, block, args, y)
        case.numbers = big
        yield case


def timed(run, on, repeats):
    """Milliseconds of each of some runs."""
    begin, end, times = P(), P(), []
    call("cuEventCreate", c.byref(begin), 0)
    call("cuEventCreate", c.byref(end), 0)
    for _ in range(repeats):
        call("cuEventRecord", begin, on)
        run()
        call("cuEventRecord", end, on)
        call("cuEventSynchronize", end)
        value = c.c_float()
        call("cuEventElapsedTime", c.byref(value), begin, end)
        times.append(value.value)
    return times


def cost(case, on, words):
    """Variant without a stop against the plain kernel, runs in turn; and slices of about 200 us."""
    timed(lambda: case.run_plain(on), on, 3)
    timed(lambda: case.run_variant(on, words), on, 3)
    plain, variant = [], []
    for _ in range(12):
        plain += timed(lambda: case.run_plain(on), on, 4)
        variant += timed(lambda: case.run_variant(on, words), on, 4)
    plain, variant = statistics.median(plain), statistics.median(variant)
    dimension = 1 if case.grid[1] > 1 else 0
    length = case.grid[dimension]
    step = max(1, round(length * 0.2 / plain)) if plain > 0.2 else length

    def slices():
        for at in range(0, length, step):
            offset, size = [0, 0, 0], list(case.grid)
            offset[dimension], size[dimension] = at, min(step, length - at)
            case.run_variant(on, words, 0, offset, tuple(size))

    timed(slices, on, 3)
    cut = statistics.median(timed(slices, on, 24))
    return plain, variant, cut, -(-length // step)


def stops(case, differs, on, other, words, count, end):
    """Runs with stops at random. Returns runs, stops that left blocks undone, wrong words, and whether the map has bytes left."""
    want, counter = alloc(4 * case.numbers), alloc(4)
    fill = lambda: call("cuMemsetD32Async", U64(case.result), U32(0x3F000000), SIZE(case.numbers), on)
    fill()
    case.run_plain(on)
    call("cuMemcpyDtoDAsync_v2", U64(want), U64(case.result), SIZE(4 * case.numbers), on)
    call("cuMemsetD32Async", U64(counter), U32(0), SIZE(1), on)
    compare = [struct.pack("<Q", case.result), struct.pack("<Q", want), struct.pack("<I", case.numbers), struct.pack("<Q", counter)]
    length = statistics.median(timed(lambda: case.run_variant(on, words), on, 5)) / 1e3
    runs = hits = 0
    word = np.zeros(1, np.uint32)
    while hits < count and time.monotonic() < end:
        fill()
        call("cuStreamSynchronize", on)
        for turn in range(50):
            call("cuMemsetD32Async", U64(words.dirty), U32(0), SIZE(1), on)
            case.run_variant(on, words, 1 if turn else 0)
            if turn < 40:
                wait = time.perf_counter() + random.uniform(0, length / (1 + turn % 4))
                while time.perf_counter() < wait:
                    pass
                call("cuMemsetD32Async", U64(words.stop), U32(1), SIZE(1), other)
            call("cuStreamSynchronize", on)
            call("cuMemsetD32Async", U64(words.stop), U32(0), SIZE(1), other)
            call("cuStreamSynchronize", other)
            down(words.dirty, word)
            if word[0] == 0:
                break
            hits += 1
        runs += 1
        differs.launch((132 * 8, 1, 1), (256, 1, 1), compare, on)
    call("cuStreamSynchronize", on)
    down(counter, word)
    left = np.empty(case.grid[0] * case.grid[1] * case.grid[2], np.uint8)
    down(words.map, left)
    call("cuMemFree_v2", U64(want))
    return runs, hits, int(word[0]), bool(left.any())


def starts(made, on, other, words, count):
    """How soon a kernel of another stream starts while one of 1 s fills the device, in us: p50, p99.

    Blocks last about 100 us. The plain kernel is in the way until it ends; its variant is stopped by the same stream.
    """
    plain, variant, _ = made["busy"]
    note = Kernel(made["note"][0], "note")
    result, at = alloc(4 * 256 * 132 * 8 * 1300), alloc(8)
    x = alloc(4 * 256)
    args = [struct.pack("<Q", result), struct.pack("<Q", x), struct.pack("<Q", x)]
    rounds = 45000
    probe = Case("busy", Kernel(plain, "busy"), Kernel(variant, "busy"), (132 * 8, 1, 1), (256, 1, 1), [*args, struct.pack("<I", rounds)], result)
    wave = statistics.median(timed(lambda: probe.run_plain(on), on, 5)) * 1e3
    rounds = int(rounds * 100 / wave)
    args.append(struct.pack("<I", rounds))
    waves = 1200
    case = Case("busy", probe.plain, probe.variant, (132 * 8 * waves, 1, 1), (256, 1, 1), args, result)
    whole = timed(lambda: case.run_plain(on), on, 1)[0]
    print(f"a kernel of {whole:.0f} ms whose blocks last about {wave * rounds / 45000:.0f} us", flush=True)
    clock = np.zeros(1, np.uint64)
    place = [struct.pack("<Q", at)]

    def request(stops_first):
        """Time from the host's request to its kernel's end, as the host sees it."""
        begin = time.perf_counter()
        if stops_first:
            call("cuMemsetD32Async", U64(words.stop), U32(1), SIZE(1), other)
        note.launch((1, 1, 1), (1, 1, 1), place, other)
        call("cuStreamSynchronize", other)
        return (time.perf_counter() - begin) * 1e6

    idle = sorted(request(False) for _ in range(200))
    free = {}
    for name in ("plain", "variant, stopped"):
        times, kept = [], 0
        for _ in range(count if name != "plain" else 4):
            begin = time.perf_counter()
            case.run_plain(on) if name == "plain" else case.run_variant(on, words, 0)
            time.sleep(random.uniform(0.02, 0.08))
            times.append(request(name != "plain"))
            call("cuStreamSynchronize", on)
            call("cuMemsetD32_v2", U64(words.stop), U32(0), SIZE(1))
            if name != "plain":  # blocks of this run that were not done are abandoned here
                call("cuMemsetD8_v2", U64(words.map), 0, SIZE(132 * 8 * waves))
        times.sort()
        free[name] = times
    line = lambda times: f"p50 {times[len(times) // 2]:.0f}, p99 {times[int(len(times) * 0.99)]:.0f} us, {len(times)} requests"
    out = [f"start of other work, idle device: {line(idle)}"]
    out += [f"start of other work next to the kernel, {name}: {line(times)}" for name, times in free.items()]
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus")
    parser.add_argument("--stops", type=int, default=10000)
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--out")
    args = parser.parse_args()
    random.seed(1)
    lines = []

    def say(text):
        print(text, flush=True)
        lines.append(text)

    call("cuInit", 0)
    context = P()
    call("cuDevicePrimaryCtxRetain", c.byref(context), 0)
    call("cuCtxSetCurrent", context)
    name = c.create_string_buffer(100)
    call("cuDeviceGetName", name, 99, 0)
    if not shutil.which("ptxas"):
        raise SystemExit("no ptxas")
    with tempfile.TemporaryDirectory() as work:
        made = build(args.corpus, work)
        on, other, words = stream(0), stream(-5), Words(132 * 8 * 1300)
        say(f"{name.value.decode()}: kernel, plain ms, variant / plain, slices / plain, registers plain and variant")
        for case in cases(made, 1 << 28):
            plain, variant, cut, number = cost(case, on, words)
            say(f"{case.name:16} {plain:8.3f} {variant / plain:7.4f} {cut / plain:7.4f} ({number} slices) "
                f"{case.plain.registers} {case.variant.registers}")
        for line in starts(made, on, other, words, 150):
            say(line)
        differs = Kernel(made["differs"][0], "differs")
        every, end = list(cases(made, 1 << 24)), time.monotonic() + args.seconds
        for at, case in enumerate(every):
            until = time.monotonic() + (end - time.monotonic()) / (len(every) - at)
            runs, hits, wrong, left = stops(case, differs, on, other, words, args.stops, until)
            say(f"{case.name:16} {runs} runs, {hits} stops, {wrong} wrong words, map {'not zero' if left else 'zero'} at the end")
    if args.out:
        with open(args.out, "w") as file:
            file.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
