#!/usr/bin/env python3
"""Programs that use the CUDA driver, on this machine's GPU directly and through a server: both must print the same.

    tools/remote/b0.py FOLDER [--driver FILE] [--seconds 120] [--server "reef remote serve --programs"]

FOLDER has libreef_remote_cuda.so and reef-remote-worker, as cargo builds them. Needs neither Rust nor a network. Runs what
is there: C programs if nvcc or gcc is, NVRTC by ctypes, numba, Triton and CuPy if Python has them.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
import time

C_PROGRAM = r"""
#include <stdio.h>
#include <stdlib.h>
typedef int R; typedef void *H; typedef unsigned long long D;
R cuInit(unsigned); R cuDeviceGet(int*, int); R cuCtxCreate_v2(H*, unsigned, int); R cuModuleLoadData(H*, const void*);
R cuModuleGetFunction(H*, H, const char*); R cuMemAlloc_v2(D*, size_t); R cuMemcpyHtoD_v2(D, const void*, size_t);
R cuMemcpyDtoH_v2(void*, D, size_t); R cuMemFree_v2(D); R cuCtxSynchronize(void); R cuCtxDestroy_v2(H);
R cuLaunchKernel(H, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, H, void**, void**);
#define CHECK(call) do { R r = (call); if (r) { printf("%s: code %d\n", #call, r); return 1; } } while (0)
static const char ptx[] =
  ".version 7.0\n.target sm_70\n.address_size 64\n"
  ".visible .entry add(.param .u64 a, .param .u64 b, .param .u32 n) {\n"
  ".reg .pred p; .reg .b32 r<6>; .reg .f32 f<4>; .reg .b64 d<6>;\n"
  "ld.param.u64 d1, [a]; ld.param.u64 d2, [b]; ld.param.u32 r1, [n];\n"
  "mov.u32 r2, %ctaid.x; mov.u32 r3, %ntid.x; mov.u32 r4, %tid.x; mad.lo.s32 r5, r2, r3, r4;\n"
  "setp.ge.u32 p, r5, r1; @p bra END;\n"
  "mul.wide.u32 d3, r5, 4; cvta.to.global.u64 d4, d1; add.s64 d4, d4, d3; cvta.to.global.u64 d5, d2; add.s64 d5, d5, d3;\n"
  "ld.global.f32 f1, [d4]; ld.global.f32 f2, [d5]; add.f32 f3, f1, f2; st.global.f32 [d4], f3;\n"
  "END: ret; }\n";
int main(void) {
  enum { N = 1 << 20 }; int device; H context, module, add; D a, b; unsigned n = N;
  float *x = malloc(4 * N), *y = malloc(4 * N);
  for (int i = 0; i < N; i++) { x[i] = i * 0.5f; y[i] = i * 0.25f; }
  CHECK(cuInit(0)); CHECK(cuDeviceGet(&device, 0)); CHECK(cuCtxCreate_v2(&context, 0, device));
  CHECK(cuModuleLoadData(&module, ptx)); CHECK(cuModuleGetFunction(&add, module, "add"));
  CHECK(cuMemAlloc_v2(&a, 4 * N)); CHECK(cuMemAlloc_v2(&b, 4 * N));
  CHECK(cuMemcpyHtoD_v2(a, x, 4 * N)); CHECK(cuMemcpyHtoD_v2(b, y, 4 * N));
  void *params[] = { &a, &b, &n };
  for (int i = 0; i < 100; i++) CHECK(cuLaunchKernel(add, N / 256, 1, 1, 256, 1, 1, 0, 0, params, 0));
  CHECK(cuCtxSynchronize()); CHECK(cuMemcpyDtoH_v2(x, a, 4 * N));
  double sum = 0; for (int i = 0; i < N; i++) sum += x[i];
  printf("sum %.6e, last %.3f\n", sum, x[N - 1]);
  CHECK(cuMemFree_v2(a)); CHECK(cuMemFree_v2(b)); CHECK(cuCtxDestroy_v2(context));
  return 0;
}
"""

NVRTC = r"""
import ctypes, ctypes.util, glob, site, struct, sys
def nvrtc():
    names = ["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"]
    for folder in site.getsitepackages() + ["/usr/local/cuda/lib64"]:
        names += glob.glob(folder + "/nvidia/**/libnvrtc.so.1[0-9]", recursive=True) + glob.glob(folder + "/libnvrtc.so.1[0-9]")
    for name in names:
        try:
            return ctypes.CDLL(name)
        except OSError:
            pass
    print("skipped: no libnvrtc"); sys.exit(0)
compiler, driver = nvrtc(), ctypes.CDLL("libcuda.so.1")
source = b"extern \"C\" __global__ void saxpy(float a, const float *x, float *y, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = a * x[i] + y[i]; }"
def check(code, what):
    if code: raise SystemExit(f"{what}: code {code}")
P, Z = ctypes.c_void_p, ctypes.c_size_t
check(driver.cuInit(0), "cuInit")
major, minor, context = ctypes.c_int(), ctypes.c_int(), P()
check(driver.cuDeviceGetAttribute(ctypes.byref(major), 75, 0), "attribute"); driver.cuDeviceGetAttribute(ctypes.byref(minor), 76, 0)
check(driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0), "retain"); check(driver.cuCtxSetCurrent(context), "current")
program, option = P(), f"--gpu-architecture=compute_{major.value}{minor.value}".encode()
check(compiler.nvrtcCreateProgram(ctypes.byref(program), source, b"s.cu", 0, None, None), "create")
check(compiler.nvrtcCompileProgram(program, 1, (ctypes.c_char_p * 1)(option)), "compile")
size = Z(); compiler.nvrtcGetPTXSize(program, ctypes.byref(size)); text = ctypes.create_string_buffer(size.value)
check(compiler.nvrtcGetPTX(program, text), "ptx")
module, function = P(), P()
check(driver.cuModuleLoadDataEx(ctypes.byref(module), text, 0, None, None), "load")
check(driver.cuModuleGetFunction(ctypes.byref(function), module, b"saxpy"), "function")
n = 100_000; data = (ctypes.c_float * n)(*[i % 97 for i in range(n)])
x, y, stream = ctypes.c_uint64(), ctypes.c_uint64(), P()
for at in (x, y): check(driver.cuMemAlloc_v2(ctypes.byref(at), Z(4 * n)), "alloc")
check(driver.cuStreamCreate(ctypes.byref(stream), 1), "stream")
for at in (x, y): check(driver.cuMemcpyHtoDAsync_v2(at, data, Z(4 * n), stream), "copy")
a, count = ctypes.c_float(2.5), ctypes.c_int(n)
params = (P * 4)(*[ctypes.cast(ctypes.byref(v), P) for v in (a, x, y, count)])
for _ in range(10):
    check(driver.cuLaunchKernel(function, (n + 255) // 256, 1, 1, 256, 1, 1, 0, stream, params, None), "launch")
check(driver.cuMemcpyDtoHAsync_v2(data, y, Z(4 * n), stream), "back"); check(driver.cuStreamSynchronize(stream), "wait")
import hashlib; print("saxpy", hashlib.sha256(bytes(data)).hexdigest()[:16])
"""

NUMBA = r"""
try:
    import numpy as np; from numba import cuda
except ImportError:
    print("skipped: no numba"); raise SystemExit(0)
import hashlib
@cuda.jit
def add(x, y, out):
    i = cuda.grid(1)
    if i < out.size: out[i] = x[i] * 3 + y[i]
x, y = np.arange(200_000, dtype=np.float32), np.arange(200_000, dtype=np.float32)[::-1].copy()
dx, dy = cuda.to_device(x), cuda.to_device(y); out = cuda.device_array_like(x)
for _ in range(5): add[800, 256](dx, dy, out)
print("numba", hashlib.sha256(out.copy_to_host().tobytes()).hexdigest()[:16])
"""

# A kernel that Triton compiles here, launched by the driver alone: Triton's own launcher wants PyTorch's tensors.
TRITON = r"""
try:
    import triton, triton.language as tl; from triton.backends.compiler import GPUTarget; from triton.compiler import ASTSource
except ImportError:
    print("skipped: no triton"); raise SystemExit(0)
import ctypes, hashlib
@triton.jit
def scale(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n) * 2.0 + 1.0, mask=i < n)
driver = ctypes.CDLL("libcuda.so.1")
def check(code, what):
    if code: raise SystemExit(f"{what}: code {code}")
P, Z = ctypes.c_void_p, ctypes.c_size_t
check(driver.cuInit(0), "cuInit"); major, minor, context = ctypes.c_int(), ctypes.c_int(), P()
driver.cuDeviceGetAttribute(ctypes.byref(major), 75, 0); driver.cuDeviceGetAttribute(ctypes.byref(minor), 76, 0)
check(driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0), "retain"); check(driver.cuCtxSetCurrent(context), "current")
source = ASTSource(fn=scale, signature={"x": "*fp32", "y": "*fp32", "n": "i32", "BLOCK": "constexpr"}, constexprs={"BLOCK": 1024})
made = triton.compile(source, target=GPUTarget("cuda", major.value * 10 + minor.value, 32))
module, function = P(), P()
check(driver.cuModuleLoadData(ctypes.byref(module), made.asm["cubin"]), "load")
check(driver.cuModuleGetFunction(ctypes.byref(function), module, made.metadata.name.encode()), "function")
n = 100_000; data = (ctypes.c_float * n)(*[i % 89 for i in range(n)]); x, y = ctypes.c_uint64(), ctypes.c_uint64()
for at in (x, y): check(driver.cuMemAlloc_v2(ctypes.byref(at), Z(4 * n)), "alloc")
check(driver.cuMemcpyHtoD_v2(x, data, Z(4 * n)), "copy")
count, none = ctypes.c_int(n), ctypes.c_uint64(0)
values = [x, y, count, none, none]  # the last ones: scratch memory, which this kernel has not
params = (P * 5)(*[ctypes.cast(ctypes.byref(v), P) for v in values])
check(driver.cuLaunchKernel(function, (n + 1023) // 1024, 1, 1, 32 * made.metadata.num_warps, 1, 1, made.metadata.shared, None, params, None), "launch")
check(driver.cuMemcpyDtoH_v2(data, y, Z(4 * n)), "back"); print("triton", hashlib.sha256(bytes(data)).hexdigest()[:16])
"""

CUPY = r"""
try:
    import cupy
except ImportError:
    print("skipped: no cupy"); raise SystemExit(0)
x = cupy.arange(1000, dtype=cupy.float32); print("cupy", float((x * x).sum()))
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--driver", help="library that is the driver [default: the system's]")
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--server", help="command that an address is the last word of [default: reef-remote-worker serve]")
    args = parser.parse_args()
    end = time.monotonic() + args.seconds
    with tempfile.TemporaryDirectory() as work:
        sys.exit(compare(args, work, end))


def compare(args, work, end):
    folder = os.path.abspath(args.folder)
    for name in ("libcuda.so.1", "libcuda.so"):
        os.symlink(os.path.join(folder, "libreef_remote_cuda.so"), os.path.join(work, name))
    here = dict(os.environ)
    if args.driver:
        os.mkdir(os.path.join(work, "local"))
        for name in ("libcuda.so.1", "libcuda.so"):
            os.symlink(os.path.abspath(args.driver), os.path.join(work, "local", name))
        here["LD_LIBRARY_PATH"] = os.path.join(work, "local") + ":" + here.get("LD_LIBRARY_PATH", "")
    wrong = 0
    for way in (f"unix:{work}/reef.sock", "127.0.0.1:0"):
        command = args.server.split() if args.server else [os.path.join(folder, "reef-remote-worker"), "serve"]
        command += [way]
        command += ["--driver", os.path.abspath(args.driver)] if args.driver else []
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            address = listening(server, "for programs" if args.server else "")
            there = dict(os.environ, REEF_REMOTE=address)
            library = os.path.join(folder, "libreef_remote_cuda.so")
            there["LD_LIBRARY_PATH"] = work + ":" + there.get("LD_LIBRARY_PATH", "")
            there.update(LD_PRELOAD=library, NUMBA_CUDA_DRIVER=library, TRITON_LIBCUDA_PATH=work)
            for name, program in programs(work):
                wrong += one(name, program, here, there, address, end)
        finally:
            server.kill()
            server.wait()
    print(f"{wrong} programs differ" if wrong else "all programs print what they print locally", flush=True)
    return 1 if wrong else 0


def listening(server, what):
    """Address that the server names in a line that ends with this."""
    for line in server.stdout:
        if line.startswith("listening on ") and line.rstrip().endswith(what):
            return line.split()[2]
    raise SystemExit(f"the server ended with {server.wait()}")


def programs(work):
    compiler = shutil.which("nvcc") or shutil.which("gcc") or shutil.which("cc")
    if compiler:
        source, binary = os.path.join(work, "add.c"), os.path.join(work, "add")
        if not os.path.exists(binary):
            with open(source, "w") as file:
                file.write(C_PROGRAM)
            # Linked with the client's library, whose names are the driver's.
            subprocess.run([compiler, "-O1", source, "-o", binary, "-L" + work, "-lcuda"], check=True)
        yield "C, PTX", [binary]
    else:
        print("skipped: no C compiler", flush=True)
    for name, text in (("NVRTC", NVRTC), ("numba", NUMBA), ("Triton", TRITON), ("CuPy", CUPY)):
        path = os.path.join(work, name + ".py")
        with open(path, "w") as file:
            file.write(textwrap.dedent(text))
        yield name, [sys.executable, path]


def one(name, program, here, there, address, end):
    said, times = [], []
    for environment in (here, there):
        begin = time.monotonic()
        left = min(60, end - begin)
        if left <= 1:
            print(f"{name}: left out, no time", flush=True)
            return 0
        try:
            result = subprocess.run(program, env=environment, capture_output=True, text=True, timeout=left)
            said.append((result.returncode, result.stdout))
            errors = result.stderr
        except subprocess.TimeoutExpired:
            said.append((None, "no end"))
            errors = ""
        times.append(time.monotonic() - begin)
    local, remote = said
    if local[1].startswith("skipped"):
        print(f"{name}: {local[1].strip()}", flush=True)
        return 0
    if local[0] != 0:
        print(f"{name}: does not run locally (code {local[0]}): {local[1].strip()[-200:]}", flush=True)
        return 0
    same = local == remote
    what = "equal" if same else f"DIFFERS: {remote} {errors.strip()[-600:]}"
    print(f"{name} at {address}: {local[1].strip()!r}: {what}; {times[0]:.2f} s locally, {times[1]:.2f} s", flush=True)
    # CuPy has NVIDIA's runtime in it, which asks for private tables: it is tried, and does not count.
    return 0 if same or name == "CuPy" else 1


if __name__ == "__main__":
    main()
