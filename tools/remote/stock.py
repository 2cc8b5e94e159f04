#!/usr/bin/env python3
"""Programs of other projects, on this machine's GPU directly and through a server: both must say the same.

    tools/remote/stock.py FOLDER SOURCES [--only NAME,…] [--seconds 300]

FOLDER has libreef_remote_cuda.so and reef-remote-worker, as cargo builds them. SOURCES has what of these is there:

    tinygrad/        tinygrad's repository (the package and its tests)
    pycuda*.tar.gz   PyCUDA's source distribution; nvcc must be there
    *.whl            what the machine's Python lacks: filecheck for numba's tests; mako, pytools, siphash24 for PyCUDA
    cudarc/          executables of cudarc's examples
    cuda-python/     examples of cuda-python

numba's own tests come with its package. Times, addresses and process numbers in what a program says are not compared;
of tests, which ones ran and how each ended.
"""

import argparse
import glob
import os
import re
import site
import subprocess
import sys
import tempfile
import time

PYTHON = sys.executable

# A residual network with fixed weights, three times: the last ones by the graph that TinyJit makes.
RESNET = r"""
import hashlib, time, sys
from tinygrad import Tensor, TinyJit, Device
from extra.models.resnet import ResNet50
Tensor.manual_seed(1)
net = ResNet50()
for at, weight in enumerate(__import__("tinygrad.nn.state", fromlist=["x"]).get_parameters(net)):
    weight.assign(Tensor.full(weight.shape, 0.01 * (at % 7 + 1), dtype=weight.dtype).contiguous()).realize()
@TinyJit
def step(x): return net(x).realize()
x = Tensor.rand(1, 3, 224, 224).realize()
for _ in range(5): y = step(x).numpy()
times = []
for _ in range(int(sys.argv[1]) if len(sys.argv) > 1 else 20):
    begin = time.perf_counter(); y = step(x).numpy(); times.append(time.perf_counter() - begin)
print("resnet50", Device.DEFAULT, y.shape, hashlib.sha256(y.tobytes()).hexdigest()[:16])
print(f"median {sorted(times)[len(times) // 2] * 1e3:.2f} ms", file=sys.stderr)
"""

NUMBA = ["cudadrv.test_cuda_driver", "cudadrv.test_cuda_memory", "cudadrv.test_cuda_ndarray", "cudadrv.test_streams",
         "cudadrv.test_events", "cudadrv.test_linker", "doc_examples", "cudapy.test_atomics", "cudapy.test_sm",
         "cudapy.test_reduction", "cudapy.test_vectorize"]


def programs(sources, work):
    """Yields name, command, folder and more variables of each program."""
    target = os.path.join(work, "site")
    wheels = glob.glob(os.path.join(sources, "*.whl"))
    if wheels:
        install = [PYTHON, "-m", "pip", "install", "-q", "--no-index", "--no-deps", "--target", target]
        subprocess.run(install + wheels, check=True)
    pycuda = build_pycuda(sources, work)
    for module in NUMBA:
        yield f"numba {module}", [PYTHON, "-m", "numba.runtests", "-v", "numba.cuda.tests." + module], work, {"PYTHONPATH": target}
    tinygrad = os.path.join(sources, "tinygrad")
    if os.path.isdir(tinygrad):
        more = {"DEV": "CUDA", "CUDA": "1", "PYTHONPATH": tinygrad, "CACHEDB": os.path.join(work, "cache.db")}
        for test in ("test/test_tiny.py", "test/backend/test_jit.py", "test/backend/test_graph.py"):
            yield f"tinygrad {test}", [PYTHON, "-m", "unittest", "-v", test], tinygrad, more
        path = os.path.join(work, "resnet.py")
        with open(path, "w") as file:
            file.write(RESNET)
        yield "tinygrad ResNet-50", [PYTHON, path], tinygrad, more
    for path in sorted(glob.glob(os.path.join(sources, "cudarc", "*"))):
        if os.access(path, os.X_OK) and not os.path.isdir(path):
            yield "cudarc " + os.path.basename(path), [path], os.path.dirname(path), {}
    for path in sorted(glob.glob(os.path.join(sources, "cuda-python", "*.py"))):
        yield "cuda-python " + os.path.basename(path), [PYTHON, path], os.path.dirname(path), {}
    if pycuda:
        process, folder, built, log = pycuda
        if process.wait() != 0:
            print("PyCUDA can't be built:", open(log).read()[-1500:], flush=True)
            return
        more = {"PYTHONPATH": built + ":" + target, "PYCUDA_CACHE_DIR": work}
        for name in ("hello_gpu", "demo", "demo_struct"):
            yield "PyCUDA " + name, [PYTHON, os.path.join(folder, "examples", name + ".py")], work, more
        tests = [PYTHON, "-m", "pytest", "-v", "-p", "no:cacheprovider", os.path.join(folder, "test", "test_driver.py")]
        yield "PyCUDA test_driver", tests, work, more


def build_pycuda(sources, work):
    """Starts to build PyCUDA, which takes minutes."""
    source = glob.glob(os.path.join(sources, "pycuda*.tar.gz"))
    if not source:
        return None
    target, folder, log = (os.path.join(work, name) for name in ("pycuda-site", "pycuda", "pycuda.log"))
    os.mkdir(folder)
    subprocess.run(["tar", "xzf", source[0], "-C", folder, "--strip-components=1"], check=True)
    install = [PYTHON, "-m", "pip", "install", "-q", "--no-index", "--no-deps", "--no-build-isolation", "--target", target]
    with open(log, "w") as file:
        return subprocess.Popen(install + [folder], stdout=file, stderr=file), folder, target, log


def nvrtc(work):
    """A folder where NVRTC has the name by which programs open it."""
    folder = os.path.join(work, "nvrtc")
    if not os.path.isdir(folder):
        os.mkdir(folder)
        places = ["/usr/local/cuda/lib64"] + glob.glob(os.path.join(site.getsitepackages()[0], "nvidia", "*", "lib"))
        for place in places:
            for path in glob.glob(os.path.join(place, "libnvrtc*.so*")):
                name = os.path.join(folder, os.path.basename(path))
                for link in (name, re.sub(r"\.so.*", ".so", name)):
                    if not os.path.lexists(link):
                        os.symlink(path, link)
    return folder


def said(result):
    """What a program said that must be equal: the outcome of each test, or its lines without times and addresses."""
    text = result.stdout + result.stderr
    tests = dict(re.findall(r"^(test\w+ \([\w.]+\)|\S+::\w+(?:\[.*?\])?).*?\b(ok|FAIL|ERROR|skipped|PASSED|FAILED|SKIPPED|XFAIL|expected failure)", text, re.M))
    if tests:
        return result.returncode, tests
    if " in thread " in text:  # of several threads, in any order
        return result.returncode, sorted(result.stdout.splitlines())
    lines = re.sub(r"0x[0-9a-f]{6,}|\d+(\.\d+)?\s?(s|ms|µs|us|ns|GB/s|seconds)\b|\d+\.\d+(e-\d+)?", "#", result.stdout)
    return result.returncode, re.sub(r"[-\s]*#[-\s]*", "#", lines)  # random numbers have any sign


def run(command, folder, environment, seconds):
    begin = time.monotonic()
    try:
        result = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired as late:
        text = [(part or b"").decode(errors="replace") if not isinstance(part, str) else part for part in (late.stdout, late.stderr)]
        result = subprocess.CompletedProcess(command, 124, *text)
    return result, time.monotonic() - begin


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("sources")
    parser.add_argument("--only", default="")
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--each", type=float, default=90, help="seconds that one run may take")
    args = parser.parse_args()
    end, only = time.monotonic() + args.seconds, [name for name in args.only.split(",") if name]
    folder, wrong, equal = os.path.abspath(args.folder), 0, 0
    with tempfile.TemporaryDirectory() as work:
        library = os.path.join(folder, "libreef_remote_cuda.so")
        driver = os.path.join(work, "driver")
        os.mkdir(driver)
        for name in ("libcuda.so.1", "libcuda.so"):
            os.symlink(library, os.path.join(driver, name))
        command = [os.path.join(folder, "reef-remote-worker"), "serve", "127.0.0.1:0"]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            address = server.stdout.readline().split()[-1]
            for name, command, where, more in programs(os.path.abspath(args.sources), work):
                if only and not any(part in name for part in only):
                    continue
                here = dict(os.environ, **more)
                here["LD_LIBRARY_PATH"] = nvrtc(work) + ":" + here.get("LD_LIBRARY_PATH", "")
                there = dict(here, REEF_REMOTE=address, LD_PRELOAD=library, NUMBA_CUDA_DRIVER=library)
                there["LD_LIBRARY_PATH"] = driver + ":" + there["LD_LIBRARY_PATH"]
                both = []
                for environment in (here, there):
                    left = min(args.each, end - time.monotonic())
                    if left > 1:
                        both.append(run(command, where, environment, left))
                if len(both) < 2:
                    print(f"{name}: left out, no time", flush=True)
                    continue
                (local, local_s), (remote, remote_s) = both
                one, other = said(local), said(remote)
                if one[0] and not isinstance(one[1], dict):
                    print(f"{name}: does not run here: {local.stderr.strip()[-200:]!r}", flush=True)
                    continue
                same = one == other
                equal, wrong = equal + same, wrong + (not same)
                what = repr(str(one[1]).strip()[-90:])
                if isinstance(one[1], dict):
                    passed = sum(end.lower() in ("ok", "passed") for end in one[1].values())
                    what = f"{len(one[1])} tests, {passed} of them pass here"
                print(f"{name}: {'equal' if same else 'DIFFERS'}, code {one[0]}, {what}; {local_s:.1f} s locally, {remote_s:.1f} s", flush=True)
                refused = sorted(set(re.findall(r"reef: .*", remote.stderr)))
                for line in refused:
                    print("    " + line, flush=True)
                if not same and isinstance(one[1], dict) and isinstance(other[1], dict):
                    for test in sorted(set(one[1]) | set(other[1])):
                        if one[1].get(test) != other[1].get(test):
                            print(f"    {test}: {one[1].get(test)} locally, {other[1].get(test)}", flush=True)
                elif not same:
                    print("    " + (local.stderr if one[0] else remote.stderr).strip()[-700:].replace("\n", "\n    "), flush=True)
        finally:
            server.kill()
            server.wait()
    print(f"{equal} programs say the same, {wrong} differ", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
