#!/usr/bin/env python3
"""Looks on a GPU: blocks are thrown away while they run, and memory must be as if nothing had happened.

    tools/variants/points.py build CORPUS FOLDER [PTXAS]   # needs Triton and nvcc, no GPU
    tools/variants/points.py run FOLDER [--stops 500]

CORPUS is the program of `cargo build -p reef-ptx --example corpus`. Grids are one wave, so blocks that are left leave at preemption points
unless they are stopped before they begin. Prints the seed, and a line for each kernel.
"""

import argparse
import ctypes as c
import json
import os
import random
import re
import statistics
import struct
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
P, U64, U32, SIZE = c.c_void_p, c.c_uint64, c.c_uint32, c.c_size_t
WORDS = 1 << 24
TRITON = r"""
import triton, triton.language as tl
@triton.jit
def matmul(c, a, b, k, BLOCK: tl.constexpr):
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inner = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    for start in range(0, k, BLOCK):
        at = start % 4096
        left = tl.load(a + row[:, None] * 4096 + (at + inner)[None, :])
        right = tl.load(b + (at + inner)[:, None] * 4096 + column[None, :])
        total = tl.dot(left, right, total)
    at = c + row[:, None] * 4096 + column[None, :]
    tl.store(at, tl.load(at) + total)
@triton.jit
def attention(c, a, b, k, BLOCK: tl.constexpr):
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    width = tl.arange(0, 64)
    query = tl.load(a + row[:, None] * 64 + width[None, :])
    best = tl.full((BLOCK,), -float("inf"), tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    acc = tl.zeros((BLOCK, 64), tl.float32)
    for start in range(0, k, BLOCK):
        column = start % 16384 + tl.arange(0, BLOCK)
        scores = tl.dot(query, tl.load(a + column[None, :] * 64 + width[:, None]))
        higher = tl.maximum(best, tl.max(scores, axis=1))
        part = tl.exp(scores - higher[:, None])
        keep = tl.exp(best - higher)
        total = total * keep + tl.sum(part, axis=1)
        acc = acc * keep[:, None] + tl.dot(part.to(tl.float16), tl.load(b + column[:, None] * 64 + width[None, :]))
        best = higher
    at = c + row[:, None] * 64 + width[None, :]
    tl.store(at, tl.load(at) + acc / total[:, None])
"""
# Name, grid, block, arguments (buffers by letter, numbers); rounds are scaled to some 10 ms.
LOOPS = [
    ("tiles_in_place", 264, 32, ["c", "a", "d", 20000]),
    ("nested", 264, 32, ["c", "a", 4000]),
    ("two_phases", 264, 32, ["c", "b", 20000]),
    ("two_phases", 264, 24, ["c", "b", 60000]),
    ("alone_in_place", 264, 40, ["c", 1000]),
]


def build(corpus, folder, ptxas):
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "points_kernels.py"), "w") as file:
        file.write(TRITON)
    sys.path.insert(0, folder)
    import points_kernels
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    jobs, files = [], []
    for name, rounds in (("matmul", 64 * 4000), ("attention", 64 * 4000)):
        signature = {"c": "*fp32", "a": "*fp16", "b": "*fp16", "k": "i32", "BLOCK": "constexpr"}
        aligned = {(at,): [["tt.divisibility", 16]] for at in range(4)}
        source = ASTSource(getattr(points_kernels, name), signature, {"BLOCK": 64}, attrs=aligned)
        made = triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4, "num_stages": 3})
        path = os.path.join(folder, name + ".ptx")
        open(path, "w").write(made.asm["ptx"])
        files.append(path)
        grid = [8, 16] if name == "matmul" else [132, 1]
        # Triton's own last parameters are addresses of scratch memory.
        scratch = made.asm["ptx"].split(".entry")[1].split(")")[0].count(".param") - 4
        jobs.append((name, grid, 128, ["c", "a", "b", rounds] + ["null"] * scratch, made.metadata.shared))
    path = os.path.join(folder, "loops.ptx")
    source = os.path.join(HERE, "../../interpose/reef-ptx/tests/corpus/looks.cu")
    subprocess.run(["nvcc", "-arch=sm_90", "-ptx", source, "-o", path], check=True)
    files.append(path)
    jobs += [(name, [grid, 1], block, args, 0) for name, grid, block, args in LOOPS]
    # An older compiler may read them: no instruction is newer than its version.
    for file in files:
        text = re.sub(r"^\.version .*", ".version 8.8", open(file).read(), count=1, flags=re.M)
        open(file, "w").write(text)
    table = subprocess.run([corpus, "--variants", folder, *files], check=True, capture_output=True, text=True).stdout
    manifest = []
    rows = {line.split("\t")[1]: line.split("\t") for line in table.splitlines()}
    for name, grid, block, args, shared in jobs:
        *_, points, variant = rows[name]
        assert points != "0", rows[name]
        for kind in ("alone", "ptx", "points"):
            text = variant[:-3] + kind
            arch = re.search(r"\.target (sm_90a?)", open(text).read())[1]
            subprocess.run([ptxas, "-arch=" + arch, text, "-o", os.path.join(folder, f"{name}.{kind}.cubin")], check=True)
        manifest.append([name, grid, block, args, shared, int(points)])
    json.dump(manifest, open(os.path.join(folder, "manifest.json"), "w"))


def call(name, *args):
    code = getattr(cuda, name)(*args)
    if code:
        raise SystemExit(f"{name}: code {code}")


def alloc(count):
    at = U64()
    call("cuMemAlloc_v2", c.byref(at), SIZE(count))
    return at.value


class Kernel:
    def __init__(self, folder, name, kind, shared):
        module, self.function, self.shared = P(), P(), shared
        call("cuModuleLoad", c.byref(module), os.path.join(folder, f"{name}.{kind}.cubin").encode())
        call("cuModuleGetFunction", c.byref(self.function), module, name.encode())
        if shared > 48 << 10:
            call("cuFuncSetAttribute", self.function, 8, shared)
        value = c.c_int()
        call("cuFuncGetAttribute", c.byref(value), 4, self.function)
        self.registers = value.value

    def launch(self, grid, block, args, on):
        kept = [c.create_string_buffer(arg, len(arg)) for arg in args]
        params = (P * len(kept))(*[c.cast(arg, P) for arg in kept])
        call("cuLaunchKernel", self.function, *grid, 1, block, 1, 1, self.shared, on, params, None)


class Case:
    """A kernel with the words of its variant. Runs have numbers, which rise."""

    def __init__(self, folder, entry, buffers, words):
        self.name, self.grid, self.block, args, shared, self.points = entry
        pack = lambda arg: struct.pack("<Q", buffers.get(arg, 0)) if isinstance(arg, str) else struct.pack("<i", arg)
        self.args, self.words = [pack(arg) for arg in args], words
        self.kinds = {kind: Kernel(folder, self.name, kind, shared) for kind in ("alone", "ptx", "points")}

    def launch(self, kind, on, resumed=0):
        args = self.args
        if kind != "alone":
            w = self.words
            w["number"] += 4
            own = struct.pack("<QQII3I3IQQ", w["stop"], w["map"], resumed, w["number"], 0, 0, 0, *self.grid, 1, w["left"], w["left"])
            args = [*args, own]
        self.kinds[kind].launch(self.grid, self.block, args, on)

    def time(self, kind, on, reset):
        reset()
        begin = time.perf_counter()
        self.launch(kind, on)
        call("cuStreamSynchronize", on)
        return (time.perf_counter() - begin) * 1e3


def run(folder, stops, seed):
    global cuda
    cuda = c.CDLL("libcuda.so.1")
    call("cuInit", 0)
    device, context, main, side = c.c_int(), P(), P(), P()
    call("cuDeviceGet", c.byref(device), 0)
    call("cuDevicePrimaryCtxRetain", c.byref(context), device)
    call("cuCtxSetCurrent", context)
    call("cuStreamCreateWithPriority", c.byref(main), 1, 0)
    call("cuStreamCreateWithPriority", c.byref(side), 1, -5)
    rng = random.Random(seed)
    print(f"seed {seed}", flush=True)
    halves = [struct.pack("<e", rng.uniform(-1, 1)) for _ in range(4096)]
    noise = b"".join(rng.choice(halves) for _ in range(1 << 16)) * (4 * WORDS >> 17)
    first = alloc(4 * WORDS)
    call("cuMemcpyHtoD_v2", U64(first), noise, SIZE(4 * WORDS))
    buffers = {name: alloc(4 * WORDS) for name in "abcd"}
    words = {name: alloc(4096) for name in ("stop", "map", "left")} | {"number": 0}
    for name in ("stop", "map", "left"):
        call("cuMemsetD8_v2", U64(words[name]), 0, SIZE(4096))

    def reset():
        for name in "abc":
            call("cuMemcpyDtoD_v2", U64(buffers[name]), U64(first), SIZE(4 * WORDS))
        call("cuMemsetD8_v2", U64(buffers["d"]), 0, SIZE(4 * WORDS))
        call("cuCtxSynchronize")

    def read(at, count):
        out = c.create_string_buffer(count)
        call("cuMemcpyDtoH_v2", out, U64(at), SIZE(count))
        return out.raw

    def result():
        return b"".join(read(buffers[name], 8 << 20 if name == "c" else 1 << 20) for name in "bcd")

    print("kernel, registers alone/variant/points, ms alone/variant/points (median of 7), stops, blocks thrown away, "
          "us from stop to end p50/p90/max, wrong", flush=True)
    for entry in json.load(open(os.path.join(folder, "manifest.json"))):
        case = Case(folder, entry, buffers, words)
        grid = case.grid[0] * case.grid[1]
        ms = {}
        for kind in ("alone", "ptx", "points"):
            ms[kind] = statistics.median(case.time(kind, main, reset) for _ in range(7))
        reset()
        case.launch("alone", main)
        call("cuStreamSynchronize", main)
        want, wrong, thrown, done, waits = result(), 0, 0, 0, []
        limit = time.perf_counter() + 8
        while done < stops and time.perf_counter() < limit:
            reset()
            for attempt in range(4):
                case.launch("points", main, attempt and words["number"])
                if attempt < 3 and rng.random() < 0.8:
                    pause = time.perf_counter() + rng.uniform(0.05, 0.95) * ms["points"] * 1e-3
                    while time.perf_counter() < pause:
                        pass
                    begin = time.perf_counter()
                    call("cuMemsetD32Async", U64(words["stop"]), U32(words["number"]), SIZE(1), side)
                    call("cuStreamSynchronize", side)
                    done += 1
                    call("cuStreamSynchronize", main)
                    waits.append((time.perf_counter() - begin) * 1e6)
                call("cuStreamSynchronize", main)
                left = read(words["map"], grid)
                thrown += sum(left)
                said = struct.unpack("<I", read(words["left"], 4))[0] == words["number"]
                wrong += said != any(left)
                if not any(left):
                    break
            wrong += any(left) or result() != want
        waits = sorted(waits) or [0]
        at = lambda part: waits[min(len(waits) - 1, int(part * len(waits)))]
        kinds = case.kinds.values()
        print(f"{case.name}: {'/'.join(str(kind.registers) for kind in kinds)}, "
              f"{'/'.join(f'{ms[kind]:.2f}' for kind in ms)}, {done}, {thrown}, {at(0.5):.0f}/{at(0.9):.0f}/{waits[-1]:.0f}, {wrong}",
              flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("command", choices=("build", "run"))
    parser.add_argument("rest", nargs="+")
    parser.add_argument("--stops", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    if given.command == "build":
        build(given.rest[0], given.rest[1], (given.rest + ["ptxas"])[2])
    else:
        run(given.rest[0], given.stops, given.seed)


main()
