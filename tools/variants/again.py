#!/usr/bin/env python3
"""reef check --exec on kernels whose answers are known, or which CUB launches. again.py FOLDER [cub]

FOLDER has the command `reef` and libreef_cuda_shim.so. The kernels are of Triton, numba and PyTorch; with `cub`, those of algorithms of
CUB (`again.cu`, built by nvcc if FOLDER has no `again_cub`). Prints a row for each kernel, and fails if an answer is another one, or if a
kernel that is idempotent by its text is not.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

# Each part of the program: kernel, what is found. A kernel of PyTorch has no PTX.
EXPECTED = {
    "triton_add": "no counter-example",
    "triton_in_place": "not idempotent",
    "triton_histogram": "not idempotent",
    "numba_scale": "not idempotent",
    "numba_copy": "no counter-example",
}

PROGRAM = r'''
import sys
import numpy as np
import torch
import triton
import triton.language as tl

@triton.jit
def triton_add(x, y, z, n, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(z + at, tl.load(x + at, at < n) + tl.load(y + at, at < n), at < n)

@triton.jit
def triton_in_place(x, n, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(x + at, tl.load(x + at, at < n) * 2 + 1, at < n)

@triton.jit
def triton_histogram(x, h, n, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    tl.atomic_add(h + tl.load(x + at, at < n), 1, at < n)

n = 100_000
grid = (triton.cdiv(n, 1024),)
# Allocations of their own: PyTorch's allocator gives small tensors parts of one.
x, y, z = (torch.full((4 << 20,), float(v), device="cuda") for v in range(3))
triton_add[grid](x, y, z, n, B=1024)
triton_in_place[grid](y, n, B=1024)
k = torch.arange(n, device="cuda", dtype=torch.int32) % 64
h = torch.zeros(64, device="cuda", dtype=torch.int32)
triton_histogram[grid](k, h, n, B=1024)
torch.cuda.synchronize()
print(float(z[:n].sum()), float(y[:n].sum()), h.tolist()[:3], float((x @ x)))
try:
    from numba import cuda
    @cuda.jit
    def numba_scale(a):
        i = cuda.grid(1)
        if i < a.size:
            a[i] = a[i] * 3
    @cuda.jit
    def numba_copy(a, b):
        i = cuda.grid(1)
        if i < a.size:
            b[i] = a[i] + 1
    a = cuda.to_device(np.arange(n, dtype=np.float32))
    b = cuda.device_array(n, np.float32)
    numba_scale[200, 512](a)
    numba_copy[200, 512](a, b)
    print(float(a.copy_to_host().sum()), float(b.copy_to_host().sum()))
except (ImportError, AttributeError):  # not there, or for an older NumPy
    print("no numba that works")
'''


def checked(folder, command):
    """Runs a program alone and checked; returns a row for each kernel."""
    environment = {**os.environ, "REEF_SHIM": str(folder / "libreef_cuda_shim.so")}
    alone = subprocess.run(command, capture_output=True, text=True, env=environment)
    print("alone:", alone.stdout, alone.stderr[-2000:], flush=True)
    check = [folder / "reef", "check", "--exec", "--json", "--", *command]
    found = subprocess.run(check, capture_output=True, text=True, env=environment)
    print(found.stderr[-3000:], flush=True)
    at = found.stdout.index("[\n") if "[\n" in found.stdout else len(found.stdout)
    assert found.stdout[:at] == alone.stdout, (found.stdout, alone.stdout)
    rows = json.loads(found.stdout[at:])
    for row in rows:
        name = row["kernel"][:60]
        print(f"{name:60} {row['checked']}/{row['launches']} {row['by_parts']} {row['text']:12} {row['found']}", flush=True)
        for why in ("left_out", "no_parts"):
            if row[why]:
                print("    ", row[why][:150])
    return rows


def of_cub(folder):
    program = folder / "again_cub"
    if not program.exists():
        source = Path(__file__).with_name("again.cu")
        code = "arch=compute_90,code=[sm_90,compute_90]"
        subprocess.run(["nvcc", "-std=c++17", "-gencode", code, "-lineinfo", source, "-o", program], check=True)
    rows = checked(folder, [str(program)])
    seen = {}
    for row in rows:
        answer = row["text"], row["found"]
        seen[answer] = seen.get(answer, 0) + 1
    for (text, found), count in sorted(seen.items()):
        print(f"{count:4} kernels: text says {text}, {found}")
    wrong = [row["kernel"] for row in rows if row["text"] in ("yes", "if distinct") and row["found"].startswith("not idempotent")]
    assert rows and not wrong, wrong
    print("none is called idempotent wrongly")


def of_languages(folder):
    program = folder / "again_program.py"
    program.write_text(PROGRAM)
    rows = checked(folder, [sys.executable, str(program)])
    wrong = []
    for part, found in EXPECTED.items():
        seen = {row["found"] for row in rows if part in row["kernel"]}
        if seen and seen != {found}:
            wrong.append((part, found, seen))
        if not seen:
            print("not launched:", part)
    assert not wrong, wrong
    print("all as expected")


if __name__ == "__main__":
    (of_cub if "cub" in sys.argv[2:] else of_languages)(Path(sys.argv[1]).resolve())
