#!/usr/bin/env python3
"""A program whose GPU is remote moves between two servers of this machine while it runs, and is written and restored.

    tools/remote/move.py FOLDER [--driver FILE] [--seconds 20] [--mib 512] [--moves 4]

FOLDER has libreef_remote_cuda.so and reef-remote-worker, as cargo builds them. Needs gcc and a GPU, neither Rust nor a network.
The program is in C, with PTX: it adds to an array, checks each round on the host, and ends with a sum that is known before.
Prints each pause with the bytes that were sent in it. The session needs its memory twice while it moves.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time

PROGRAM = r"""
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
typedef int R; typedef void *H; typedef unsigned long long D;
R cuInit(unsigned); R cuDeviceGet(int*, int); R cuDevicePrimaryCtxRetain(H*, int); R cuCtxSetCurrent(H);
R cuModuleLoadData(H*, const void*); R cuModuleGetFunction(H*, H, const char*); R cuModuleGetGlobal_v2(D*, size_t*, H, const char*);
R cuMemAlloc_v2(D*, size_t); R cuMemcpyHtoD_v2(D, const void*, size_t); R cuMemcpyDtoH_v2(void*, D, size_t); R cuMemFree_v2(D);
R cuCtxSynchronize(void); R cuStreamCreate(H*, unsigned); R cuStreamSynchronize(H); R cuMemsetD32_v2(D, unsigned, size_t);
R cuStreamBeginCapture_v2(H, int); R cuStreamEndCapture(H, H*); R cuGraphInstantiateWithFlags(H*, H, unsigned long long);
R cuGraphLaunch(H, H); R cuLaunchKernel(H, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, H, void**, void**);
#define CHECK(call) do { R r = (call); if (r) { printf("%s: code %d after %ld rounds\n", #call, r, rounds); return 1; } } while (0)
static const char ptx[] =
  ".version 7.0\n.target sm_70\n.address_size 64\n.visible .global .align 4 .u32 launches;\n"
  ".visible .entry add(.param .u64 a, .param .u32 n) {\n"
  ".reg .pred p; .reg .b32 r<8>; .reg .b64 d<6>;\n"
  "ld.param.u64 d1, [a]; ld.param.u32 r1, [n];\n"
  "mov.u32 r2, %ctaid.x; mov.u32 r3, %ntid.x; mov.u32 r4, %tid.x; mad.lo.s32 r5, r2, r3, r4;\n"
  "setp.ne.u32 p, r5, 0; @p bra GO; mov.u64 d5, launches; ld.global.u32 r6, [d5]; add.u32 r6, r6, 1; st.global.u32 [d5], r6;\n"
  "GO: setp.ge.u32 p, r5, r1; @p bra END;\n"
  "mul.wide.u32 d3, r5, 4; cvta.to.global.u64 d4, d1; add.s64 d4, d4, d3;\n"
  "ld.global.u32 r7, [d4]; add.u32 r7, r7, 1; st.global.u32 [d4], r7;\n"
  "END: ret; }\n";
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + t.tv_nsec * 1e-9; }
int main(int count, char **args) {
  long rounds = 0; double seconds = atof(args[1]), worst = 0; size_t bytes = (size_t)atol(args[2]) << 20;
  unsigned n = 1 << 20, word, launched; int device; H context, module, add, stream, graph, exec; D a, idle, global;
  CHECK(cuInit(0)); CHECK(cuDeviceGet(&device, 0)); CHECK(cuDevicePrimaryCtxRetain(&context, device)); CHECK(cuCtxSetCurrent(context));
  CHECK(cuModuleLoadData(&module, ptx)); CHECK(cuModuleGetFunction(&add, module, "add"));
  CHECK(cuModuleGetGlobal_v2(&global, 0, module, "launches"));
  CHECK(cuMemAlloc_v2(&a, 4ul * n)); CHECK(cuMemAlloc_v2(&idle, bytes)); CHECK(cuStreamCreate(&stream, 1));
  CHECK(cuMemsetD32_v2(a, 0, n)); CHECK(cuMemsetD32_v2(idle, 0x01020304, bytes / 4)); CHECK(cuCtxSynchronize());
  void *params[] = { &a, &n };
  CHECK(cuStreamBeginCapture_v2(stream, 0));
  for (int i = 0; i < 4; i++) CHECK(cuLaunchKernel(add, n / 256, 1, 1, 256, 1, 1, 0, stream, params, 0));
  CHECK(cuStreamEndCapture(stream, &graph)); CHECK(cuGraphInstantiateWithFlags(&exec, graph, 0));
  fprintf(stderr, "ready\n");
  double begin = now();
  while (now() - begin < seconds) {
    double at = now();
    for (int i = 0; i < 4; i++) CHECK(cuLaunchKernel(add, n / 256, 1, 1, 256, 1, 1, 0, stream, params, 0));
    CHECK(cuGraphLaunch(exec, stream)); CHECK(cuStreamSynchronize(stream)); rounds++;
    CHECK(cuMemcpyDtoH_v2(&word, a + 4 * (rounds % n), 4));
    if (word != 8 * rounds) { printf("round %ld: must be %ld, got %u\n", rounds, 8 * rounds, word); return 1; }
    if (now() - at > worst) worst = now() - at;
  }
  unsigned *all = malloc(bytes), *mine = malloc(4ul * n); CHECK(cuMemcpyDtoH_v2(all, idle, bytes)); CHECK(cuMemcpyDtoH_v2(mine, a, 4ul * n));
  CHECK(cuMemcpyDtoH_v2(&launched, global, 4));
  for (size_t i = 0; i < bytes / 4; i++) if (all[i] != 0x01020304) { printf("idle word %zu: %x\n", i, all[i]); return 1; }
  for (unsigned i = 0; i < n; i++) if (mine[i] != 8 * rounds) { printf("word %u: %u\n", i, mine[i]); return 1; }
  if (launched != 8 * rounds) { printf("launches: must be %ld, got %u\n", 8 * rounds, launched); return 1; }
  printf("right: %ld rounds, longest %.1f ms\n", rounds, worst * 1e3);
  return 0;
}
"""


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        own = file.read().split()
    for task in os.listdir(f"/proc/{pid}/task"):
        try:
            with open(f"/proc/{pid}/task/{task}/children") as file:
                own += [child for child in file.read().split() if child not in own]
        except OSError:
            pass
    return own


def worker(server):
    for _ in range(200):
        found = children(server.pid)
        if len(found) == 1:
            return found[0]
        time.sleep(0.05)
    raise SystemExit(f"server {server.pid}: {len(found)} workers")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--driver")
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--mib", type=int, default=512)
    parser.add_argument("--moves", type=int, default=4)
    options = parser.parse_args()
    folder = os.path.abspath(options.folder)
    tool = os.path.join(folder, "reef-remote-worker")
    work = tempfile.mkdtemp(prefix="reef-move-")
    environment = dict(os.environ, REEF_REMOTE_FOLDER=os.path.join(work, "sockets"))
    source, program = os.path.join(work, "move.c"), os.path.join(work, "move")
    with open(source, "w") as file:
        file.write(PROGRAM)
    libraries = os.path.join(work, "lib")
    os.mkdir(libraries)
    for name in ("libcuda.so.1", "libcuda.so"):
        os.symlink(os.path.join(folder, "libreef_remote_cuda.so"), os.path.join(libraries, name))
    subprocess.run(["gcc", "-O1", "-o", program, source, "-L" + libraries, "-l:libcuda.so.1"], check=True)
    servers = []
    for name in ("a", "b"):
        command = [tool, "serve", f"unix:{work}/{name}.sock"]
        if options.driver:
            command += ["--driver", os.path.abspath(options.driver)]
        server = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
        print(server.stdout.readline().strip(), flush=True)
        servers.append(server)
    addresses = [f"unix:{work}/a.sock", f"unix:{work}/b.sock"]
    environment.update(REEF_REMOTE=addresses[0], LD_LIBRARY_PATH=libraries)
    command = [program, str(options.seconds), str(options.mib)]
    child = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while "ready" not in (line := child.stderr.readline()):
        if not line:
            raise SystemExit("the program has ended: " + child.stdout.read())
    failed = False

    def run(*words):
        nonlocal failed
        said = subprocess.run([tool, *words], env=environment, capture_output=True, text=True, timeout=120)
        print(f"{words[0]}: {(said.stdout + said.stderr).strip()}", flush=True)
        failed |= said.returncode != 0

    at, pause = 0, options.seconds / (options.moves + 4)
    for _ in range(options.moves):
        time.sleep(pause)
        run("migrate", worker(servers[at]), addresses[1 - at])
        at = 1 - at
    time.sleep(pause)
    snapshot = os.path.join(work, "snapshot")
    run("snapshot", worker(servers[at]), snapshot, "end")
    print(f"snapshot: {os.path.getsize(os.path.join(snapshot, 'session.reef'))} bytes in the file", flush=True)
    run("restore", snapshot, addresses[at])
    out, errors = child.communicate(timeout=options.seconds + 120)
    print("program:", out.strip(), errors.strip(), flush=True)
    for server in servers:
        server.kill()
    sys.exit(1 if failed or child.returncode != 0 or "right" not in out else 0)


if __name__ == "__main__":
    main()
