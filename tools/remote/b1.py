#!/usr/bin/env python3
"""Programs that use the CUDA runtime: with NVIDIA's runtime, with REEF's, and with REEF's on the GPU of a server.

    tools/remote/b1.py FOLDER SOURCES [--build DIR] [--driver FILE] [--seconds 230] [--only NAME] [--rates]

FOLDER has libreef_cudart.so, libreef_remote_cuda.so and reef-remote-worker, as cargo builds them. SOURCES has Common/ and
Samples/ of NVIDIA's cuda-samples (the ones named below do), and matmul.cu and cricket-cuda.h of Cricket's tests/test_apps.
To fetch both:

    git clone https://github.com/NVIDIA/cuda-samples SOURCES
    git clone https://github.com/RWTH-ACS/cricket && cp cricket/tests/test_apps/matmul.cu cricket/cpu/cricket-cuda.h SOURCES

Needs nvcc, and neither Rust nor a network. Programs are compiled with -cudart shared into DIR; one that is there is kept.
All print the same but for times: lines with times, rates and addresses are left out. nbody is compiled without OpenGL.
With --rates: the GFLOP/s that nbody says instead, in three rounds of all ways, also over a line of 0.1 ms.
"""

import argparse
import concurrent.futures
import glob
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time

S0, S1, S2 = "0_Introduction", "1_Utilities", "2_Concepts_and_Techniques"
S3, S5, S6 = "3_CUDA_Features", "5_Domain_Specific", "6_Performance"
# Name, folder below Samples/, arguments.
SAMPLES = [
    ("vectorAdd", S0, []), ("matrixMul", S0, []), ("asyncAPI", S0, []), ("simpleStreams", S0, []), ("clock", S0, []),
    ("simpleOccupancy", S0, []), ("simpleMultiCopy", S0, []), ("simpleCallback", S0, []), ("simpleTemplates", S0, []),
    ("simpleVoteIntrinsics", S0, []), ("simpleAtomicIntrinsics", S0, []), ("mergeSort", S0, []), ("simpleHyperQ", S0, []),
    ("simpleCooperativeGroups", S0, []), ("simpleMultiGPU", S0, []), ("fp16ScalarProduct", S0, []),
    ("deviceQuery", S1, []), ("reduction", S2, []), ("scan", S2, []), ("histogram", S2, []), ("sortingNetworks", S2, []),
    ("scalarProd", S2, []), ("shfl_scan", S2, []), ("threadFenceReduction", S2, []), ("inlinePTX", S2, []),
    ("convolutionSeparable", S2, []), ("streamOrderedAllocation", S2, []), ("StreamPriorities", S3, []),
    ("globalToShmemAsyncCopy", S3, []), ("simpleCudaGraphs", S3, []), ("BlackScholes", S5, []), ("SobolQRNG", S5, []),
    ("binomialOptions", S5, []), ("fastWalshTransform", S5, []), ("quasirandomGenerator", S5, []),
    ("transpose", S6, []), ("alignedTypes", S6, []),
]
NBODY = [("nbody -benchmark", ["-benchmark", "-numbodies=8192", "-i=3"]), ("nbody -compare", ["-compare", "-numbodies=4096"])]
# Lines with these are about time or places, and those of kernels' own printf appear at the server.
LEFT_OUT = re.compile(
    r"time|elapsed|\bms\b|msec|usec|\bsec|second|[GMK]i?B/s|GFLOP|gflop|interactions|throughput|bandwidth|speedup|clocks|"
    r"cycles|Runtime Version|0x[0-9a-f]{6}|CPU executed|still running|i am working|per scan|/s\b|Average|samples/", re.I)
# Facts that a remote device does not have: managed and mapped memory, peers, PCI ids of the other machine.
REMOTE_FACTS = re.compile(
    r"managed|unified|Location ID|Host page-locked|pageable|MultiDevice|Compute Preemption|Integrated|registered|P2P|peer", re.I)
RUNTIMES = ("libcudart.so.12", "libcudart.so.13")

STUB_TYPES = """#pragma once
typedef unsigned GLenum, GLuint, GLbitfield, GLsizei_u; typedef int GLint, GLsizei; typedef float GLfloat; typedef double GLdouble;
typedef unsigned char GLubyte, GLboolean; typedef char GLchar; typedef void GLvoid; typedef long GLsizeiptr, GLintptr;
#define SDK_CHECK_ERROR_GL() (void)0
static inline int isGLVersionSupported(int, int) { return 1; }
static inline int areGLExtensionsSupported(const char *) { return 1; }
"""


def gl_stubs(folder, sources):
    """Headers in which each function of OpenGL and GLUT that the sources name does nothing."""
    text = "".join(open(path, errors="replace").read() for path in sources)
    functions = sorted(set(re.findall(r"\b((?:gl|glu|glut|glew)[A-Z]\w*)\s*\(", text)) - {"glPrint", "glPrintShadowed"})
    names = sorted(set(re.findall(r"\b((?:GL|GLUT)_[A-Z0-9_]+[A-Za-z0-9_]*)\b", text)))
    out = STUB_TYPES + "".join(f"template <class... A> static inline int {name}(A...) {{ return 0; }}\n" for name in functions)
    numbers = {name: "((void *)0)" if name.startswith("GLUT_BITMAP") else at for at, name in enumerate(names, 1)}
    out += "".join(f"#define {name} {number}\n" for name, number in numbers.items())
    os.makedirs(os.path.join(folder, "GL"), exist_ok=True)
    for name in ("helper_gl.h", "GL/gl.h", "GL/glu.h", "GL/glut.h", "GL/freeglut.h", "GL/glew.h"):
        with open(os.path.join(folder, name), "w") as file:
            file.write(out if name == "GL/gl.h" else "#pragma once\n#include <GL/gl.h>\n")


class Build:
    def __init__(self, args):
        self.sources, self.folder, self.arch = os.path.abspath(args.sources), os.path.abspath(args.build), args.arch
        self.nvcc = args.nvcc or shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
        os.makedirs(self.folder, exist_ok=True)

    def compile(self, name, folder, files, more=()):
        binary = os.path.join(self.folder, name)
        if os.path.exists(binary):
            return binary, ""
        command = [self.nvcc, "-std=c++17", "-O2", f"-arch={self.arch}", "-cudart", "shared", "-Wno-deprecated-declarations"]
        command += [*more, "-I" + os.path.join(self.sources, "Common"), "-o", binary, *files]
        try:
            made = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        except OSError as error:
            return None, str(error)
        return (binary if made.returncode == 0 else None), made.stderr.strip()[-300:]

    def sample(self, name, where):
        folder = os.path.join(self.sources, "Samples", where, name)
        files = [os.path.basename(path) for end in ("*.cu", "*.cpp") for path in sorted(glob.glob(os.path.join(folder, end)))]
        return self.compile(name, folder, files)

    def cricket(self):
        return self.compile("test_kernel", self.sources, ["matmul.cu"], ["-DTEST_KERNEL", "-rdc=true"])

    def nbody(self):
        folder, common = os.path.join(self.sources, "Samples", S5, "nbody"), os.path.join(self.sources, "Common")
        stubs = os.path.join(self.folder, "stubs")
        named = glob.glob(os.path.join(folder, "*.cpp")) + glob.glob(os.path.join(folder, "*.h")) + glob.glob(os.path.join(folder, "*.cu"))
        gl_stubs(stubs, named + [os.path.join(common, "paramgl.h")])
        files = ["bodysystemcuda.cu", "nbody.cpp", "render_particles.cpp"]
        return self.compile("nbody", folder, files, ["-I" + stubs, "-rdc=true", "--extended-lambda"])

    def all(self, only):
        """Name, arguments, and the future of the binary."""
        jobs = concurrent.futures.ThreadPoolExecutor(max(2, min(12, os.cpu_count() or 2)))
        made = {}
        programs = [("test_kernel", [], (self.cricket,))]
        programs += [(name, args, (self.nbody,)) for name, args in NBODY]
        programs += [(name, args, (self.sample, name, where)) for name, where, args in SAMPLES]
        programs = [one for one in programs if not only or one[0] in only]
        for _, _, job in programs:
            made[job] = made.get(job) or jobs.submit(*job)
        jobs.shutdown(wait=False)
        return [(name, args, made[job]) for name, args, job in programs]


class Server:
    """A server with the GPU of this machine."""

    def __init__(self, folder, driver):
        command = [os.path.join(folder, "reef-remote-worker"), "serve", "127.0.0.1:0"]
        command += ["--driver", os.path.abspath(driver)] if driver else []
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.address = self.process.stdout.readline().split()[-1]
        # What kernels print comes here.
        threading.Thread(target=lambda: [None for _ in self.process.stdout], daemon=True).start()

    def close(self):
        self.process.kill()
        self.process.wait()


def link(folder, links):
    os.makedirs(folder)
    for name, target in links.items():
        os.symlink(os.path.abspath(target), os.path.join(folder, name))
    return folder


def environments(args, work, address):
    """The ways in which each program runs."""
    folder = os.path.abspath(args.folder)
    own = {name: os.path.join(folder, "libreef_cudart.so") for name in RUNTIMES}
    there = dict(own, **{name: os.path.join(folder, "libreef_remote_cuda.so") for name in ("libcuda.so.1", "libcuda.so")})
    driver = {name: args.driver for name in ("libcuda.so.1", "libcuda.so")} if args.driver else {}
    folders = {"vendor": driver, "own": dict(own, **driver), "remote": there}
    paths = {name: link(os.path.join(work, name), links) for name, links in folders.items()}
    before = os.environ.get("LD_LIBRARY_PATH", "")
    vendor = ":".join(filter(None, [args.runtime, before]))

    def with_path(path, **more):
        return dict(os.environ, LD_LIBRARY_PATH=":".join(filter(None, [path, vendor])), **more)

    remote = {"REEF_REMOTE": address}
    return {
        "vendor": with_path(paths["vendor"]), "own": with_path(paths["own"]), "TCP": with_path(paths["remote"], **remote),
        "TCP, 5 ms": with_path(paths["remote"], REEF_REMOTE_EMULATE="rtt:5ms", **remote),
    }


def shown(text, is_remote):
    lines = [re.sub(r"\s+", " ", line).strip() for line in text.splitlines()]
    lines = [line for line in lines if line and not LEFT_OUT.search(line)]
    return [line for line in lines if not (is_remote and REMOTE_FACTS.search(line))]


def run(command, environment, seconds, folder):
    begin = time.monotonic()
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, errors="replace", timeout=seconds, cwd=folder)
        return done.returncode, done.stdout, done.stderr, time.monotonic() - begin
    except subprocess.TimeoutExpired:
        return None, "", "no end", time.monotonic() - begin


def compare(name, command, ways, end, folder):
    """One line of the table; returns whether something is wrong."""
    words, wrong, first, details = [], False, None, []
    for way, environment in ways.items():
        left = min(40, end - time.monotonic())
        if left < 2:
            words.append("no time")
            continue
        code, out, errors, took = run(command, environment, left, folder)
        if way == "vendor":
            first = (code, out)
            words.append(f"{code} {took:.1f} s")
            continue
        is_remote = way.startswith("TCP")
        expected, got = shown(first[1], is_remote), shown(out, is_remote)
        same = code == first[0] and expected == got
        words.append(("same" if same else f"DIFFERS ({code})") + f" {took:.1f} s")
        if not same:
            wrong = True
            different = [f"-{line}" for line in expected if line not in got] + [f"+{line}" for line in got if line not in expected]
            details.append(f"    {way}: " + " | ".join(different[:6])[:600] + " || " + errors.strip()[-400:].replace("\n", " | "))
    print(f"{name:26} " + "".join(f"{word:22}" for word in words), *details, sep="\n" if details else "", flush=True)
    return wrong


def rates(args, work, server):
    """Prints what nbody says of its rate, for each way; returns whether one says nothing."""
    ways = environments(args, work, server.address)
    ways["TCP, 0.1 ms"] = dict(ways["TCP"], REEF_REMOTE_EMULATE="rtt:0.1ms")
    binary, why = Build(args).nbody()
    if not binary:
        print(f"nbody not compiled: {why}")
        return 1
    command = [binary, "-benchmark", "-numbodies=131072", "-i=20"]
    found = {way: [] for way in ways}
    for _ in range(3):
        for way, environment in ways.items():
            _, out, errors, _ = run(command, environment, 60, work)
            rate = re.search(r"([0-9.]+) single-precision GFLOP/s", out)
            if not rate:
                print(f"{way}: {out[-200:]} {errors[-300:]}")
                return 1
            found[way].append(float(rate[1]))
    for way, values in found.items():
        part = statistics.median(values) / statistics.median(found["vendor"])
        print(f"{way:14} GFLOP/s {' '.join(f'{value:.0f}' for value in values)}, {part:.3f} of the vendor's", flush=True)
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("sources")
    parser.add_argument("--build", default="target/gpu-b1/bin", help="folder of the compiled programs")
    parser.add_argument("--build-only", action="store_true")
    parser.add_argument("--driver", help="library that is the driver [default: the system's]")
    parser.add_argument("--runtime", help="folder of NVIDIA's libcudart [default: the loader's]")
    parser.add_argument("--nvcc", help="the compiler [default: of PATH]")
    parser.add_argument("--arch", default="sm_90")
    parser.add_argument("--seconds", type=float, default=230)
    parser.add_argument("--only", action="append")
    parser.add_argument("--rates", action="store_true")
    args = parser.parse_args()
    end = time.monotonic() + args.seconds
    programs = [] if args.rates else Build(args).all(args.only)
    with tempfile.TemporaryDirectory() as work:
        server = None if args.build_only else Server(args.folder, args.driver)
        try:
            sys.exit(rates(args, work, server) if args.rates else table(args, programs, work, server, end))
        finally:
            if server:
                server.close()


def table(args, programs, work, server, end):
    wrong = built = 0
    ways = environments(args, work, server.address) if server else {}
    print(f"{'program':26} " + "".join(f"{way:22}" for way in ways), flush=True)
    for name, arguments, future in programs:
        binary, why = future.result()
        if not binary:
            print(f"{name:26} not compiled: {why}", flush=True)
            wrong += 1
            continue
        built += 1
        if server:
            folder = os.path.join(work, "run")
            os.makedirs(folder, exist_ok=True)
            wrong += compare(name, [binary, *arguments], ways, end, folder)
    print(f"{built} programs compiled, {wrong} wrong", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    main()
