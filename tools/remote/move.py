#!/usr/bin/env python3
"""A program whose GPU is remote moves between two servers of this machine while it runs, and is written and restored.

    tools/remote/move.py FOLDER [--mib 8192] [--moves 4] [--seconds 30] [--words 1048576] [--known]

FOLDER has libreef_remote_cuda.so and reef-remote-worker, as cargo builds them. Needs gcc and a GPU with room for the program's
memory twice, neither Rust nor a network.

The program is in C, with PTX: it adds to an array, checks each round on the host, and checks all of its memory in the end. Prints one
object of JSON: for each move its pause with the bytes that were sent in it, the goal (those bytes at the bandwidth of the copy before the
pause, two round trips and 50 ms), and the longest round as the program saw it. Exits with 1 if a value is wrong or a move fails; a
pause beyond the goal is reported only.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time

PROGRAM = r"""
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
typedef int R; typedef void *H; typedef unsigned long long D;
R cuInit(unsigned); R cuDeviceGet(int*, int); R cuDevicePrimaryCtxRetain(H*, int); R cuCtxSetCurrent(H); R cuDeviceGetName(char*, int, int);
R cuModuleLoadData(H*, const void*); R cuModuleGetFunction(H*, H, const char*); R cuModuleGetGlobal_v2(D*, size_t*, H, const char*);
R cuMemAlloc_v2(D*, size_t); R cuMemcpyHtoD_v2(D, const void*, size_t); R cuMemcpyDtoH_v2(void*, D, size_t); R cuMemsetD8_v2(D, unsigned char, size_t);
R cuCtxSynchronize(void); R cuStreamCreate(H*, unsigned); R cuStreamSynchronize(H);
R cuStreamBeginCapture_v2(H, int); R cuStreamEndCapture(H, H*); R cuGraphInstantiateWithFlags(H*, H, unsigned long long);
R cuGraphLaunch(H, H); R cuLaunchKernel(H, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, H, void**, void**);
#define CHECK(call) do { R r = (call); if (r) { printf("%s: code %d after %llu rounds\n", #call, r, rounds); return 1; } } while (0)
#define CHUNK (64ul << 20)
#define PIECE (1ul << 20)
#define BYTE(at) (unsigned char)((at) / (PIECE / 2) % 2 ? (at) / PIECE >> 8 : (at) / PIECE)
static const char ptx[] =
  ".version 6.0\n.target sm_50\n.address_size 64\n.visible .global .align 8 .b8 launches[8];\n"
  ".visible .entry add(.param .u64 a, .param .u64 value) {\n"
  ".reg .pred p; .reg .b32 r<6>; .reg .b64 d<10>;\n"
  "ld.param.u64 d1, [a]; ld.param.u64 d2, [value];\n"
  "mov.u32 r2, %ctaid.x; mov.u32 r3, %ntid.x; mov.u32 r4, %tid.x; mad.lo.s32 r5, r2, r3, r4;\n"
  "setp.ne.u32 p, r5, 0; @p bra GO; mov.u64 d5, launches; ld.global.u64 d6, [d5]; add.u64 d6, d6, 1; st.global.u64 [d5], d6;\n"
  "GO: mul.wide.u32 d3, r5, 8; cvta.to.global.u64 d4, d1; add.s64 d4, d4, d3;\n"
  "ld.global.u64 d7, [d4]; add.u64 d7, d7, d2; st.global.u64 [d4], d7; ret; }\n";
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + t.tv_nsec * 1e-9; }
int main(int count, char **args) {
  unsigned long long rounds = 0, sum = 0, word, launched, value, first = atoi(args[4]) ? 5 : 0;
  int is_known = atoi(args[4]); double seconds = atof(args[1]), worst = 0; size_t bytes = (size_t)atol(args[2]) << 20, n = atol(args[3]);
  unsigned block = n < 256 ? n : 256, grid = n / block; int device; char name[100];
  H context, module, add, stream, graph, exec; D a, idle, global;
  CHECK(cuInit(0)); CHECK(cuDeviceGet(&device, 0)); CHECK(cuDeviceGetName(name, sizeof name, device));
  CHECK(cuDevicePrimaryCtxRetain(&context, device)); CHECK(cuCtxSetCurrent(context));
  CHECK(cuModuleLoadData(&module, ptx)); CHECK(cuModuleGetFunction(&add, module, "add"));
  if (is_known) { CHECK(cuModuleGetGlobal_v2(&global, 0, module, "launches")); CHECK(cuMemcpyHtoD_v2(global, &first, 8)); }
  CHECK(cuMemAlloc_v2(&a, 8 * n)); CHECK(cuMemAlloc_v2(&idle, bytes)); CHECK(cuStreamCreate(&stream, 1));
  CHECK(cuMemsetD8_v2(a, 0, 8 * n)); 
  for (size_t at = 0; at < bytes; at += PIECE) // no two pieces are equal
    for (int half = 0; half < 2; half++) CHECK(cuMemsetD8_v2(idle + at + half * PIECE / 2, BYTE(at + half * PIECE / 2), PIECE / 2));
  CHECK(cuCtxSynchronize());
  void *params[] = { &a, &value };
  CHECK(cuStreamBeginCapture_v2(stream, 0));
  for (value = 1; value <= 4; value++) CHECK(cuLaunchKernel(add, grid, 1, 1, block, 1, 1, 0, stream, params, 0));
  CHECK(cuStreamEndCapture(stream, &graph)); CHECK(cuGraphInstantiateWithFlags(&exec, graph, 0));
  fprintf(stderr, "ready %s\n", name);
  double begin = now();
  while (now() - begin < seconds) {
    double at = now();
    for (value = rounds; value < rounds + 4; value++) { CHECK(cuLaunchKernel(add, grid, 1, 1, block, 1, 1, 0, stream, params, 0)); sum += value; }
    CHECK(cuGraphLaunch(exec, stream)); CHECK(cuStreamSynchronize(stream)); rounds++; sum += 10;
    CHECK(cuMemcpyDtoH_v2(&word, a + 8 * (rounds % n), 8));
    if (word != sum) { printf("round %llu: must be %llu, got %llu\n", rounds, sum, word); return 1; }
    if (now() - at > worst) worst = now() - at;
  }
  unsigned char *some = malloc(CHUNK); unsigned long long *mine = malloc(8 * n);
  for (size_t at = 0; at < bytes; at += CHUNK) {
    size_t len = bytes - at < CHUNK ? bytes - at : CHUNK; CHECK(cuMemcpyDtoH_v2(some, idle + at, len));
    for (size_t i = 0; i < len; i++) if (some[i] != BYTE(at + i)) { printf("idle byte %zu: %d\n", at + i, some[i]); return 1; }
  }
  if (!is_known) CHECK(cuModuleGetGlobal_v2(&global, 0, module, "launches"));
  CHECK(cuMemcpyDtoH_v2(mine, a, 8 * n)); CHECK(cuMemcpyDtoH_v2(&launched, global, 8));
  for (size_t i = 0; i < n; i++) if (mine[i] != sum) { printf("word %zu: must be %llu, got %llu\n", i, sum, mine[i]); return 1; }
  if (launched != first + (n > 1 ? 8 * rounds : 0)) { printf("launches: must be %llu, got %llu\n", first + 8 * rounds, launched); return 1; }
  printf("right: %llu rounds, longest %.1f ms\n", rounds, worst * 1e3);
  return 0;
}
"""

# Two round trips of a socket of this machine, and what the goal allows for all else.
FIXED_MS = 50.2


def workers(server):
    """Processes that a server has started."""
    found = set()
    for task in os.listdir(f"/proc/{server.pid}/task"):
        try:
            with open(f"/proc/{server.pid}/task/{task}/children") as file:
                found.update(file.read().split())
        except OSError:
            pass
    return found


def worker(server):
    for _ in range(400):
        found = workers(server)
        if len(found) == 1:
            return found.pop()
        time.sleep(0.05)
    raise SystemExit(f"server {server.pid}: {len(found)} workers")


class Tool:
    """The commands of reef-remote-worker."""

    def __init__(self, path, environment):
        self.path, self.environment, self.failures = path, environment, []

    def run(self, *words):
        """Returns milliseconds, and the numbers of what it has said."""
        begin = time.monotonic()
        said = subprocess.run([self.path, *words], env=self.environment, capture_output=True, text=True, timeout=600)
        millis = (time.monotonic() - begin) * 1e3
        text = (said.stdout + said.stderr).strip()
        print(f"{words[0]}: {text}", file=sys.stderr, flush=True)
        if said.returncode != 0:
            self.failures.append(f"{words[0]}: {text}")
            return millis, None
        return millis, [float(number) for number in re.findall(r"[0-9.]+", text)]

    def move(self, from_worker, address):
        millis, said = self.run("migrate", from_worker, address)
        if said is None:
            return {"error": self.failures[-1]}
        pause, memory, read, delta = said
        bandwidth = memory / max(millis - pause, 0.1) / 1e6
        goal = delta / (bandwidth * 1e6) + FIXED_MS
        return {
            "pause_ms": pause,
            "pause_bytes": int(delta),
            "read_bytes": int(read),
            "goal_ms": round(goal, 1),
            "is_within_goal": pause <= goal,
            "memory_bytes": int(memory),
            "whole_ms": round(millis, 1),
            "copy_gb_s": round(bandwidth, 2),
        }


def compile_program(work, library):
    source, program, libraries = (os.path.join(work, name) for name in ("move.c", "move", "lib"))
    with open(source, "w") as file:
        file.write(PROGRAM)
    os.mkdir(libraries)
    for name in ("libcuda.so.1", "libcuda.so"):
        os.symlink(library, os.path.join(libraries, name))
    subprocess.run(["gcc", "-O1", "-o", program, source, "-L" + libraries, "-l:libcuda.so.1"], check=True)
    return program, libraries


def read_ready(child):
    """Waits until the program says that it runs; returns the device's name. What follows is passed on."""
    for line in child.stderr:
        if line.startswith("ready "):
            threading.Thread(target=shutil.copyfileobj, args=(child.stderr, sys.stderr), daemon=True).start()
            return line[len("ready "):].strip()
        sys.stderr.write(line)
    raise SystemExit("the program has ended: " + child.stdout.read())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--mib", type=int, default=8192)
    parser.add_argument("--moves", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--words", type=int, default=1 << 20)
    parser.add_argument("--known", action="store_true", help="the program asks for the address of a variable before it moves")
    options = parser.parse_args()
    folder, work = os.path.abspath(options.folder), tempfile.mkdtemp(prefix="reef-move-")
    environment = dict(os.environ, REEF_REMOTE_FOLDER=os.path.join(work, "sockets"))
    tool = Tool(os.path.join(folder, "reef-remote-worker"), environment)
    program, libraries = compile_program(work, os.path.join(folder, "libreef_remote_cuda.so"))
    servers, addresses, child = [], [f"unix:{work}/{name}.sock" for name in "ab"], None
    try:
        for address in addresses:
            command = [tool.path, "serve", address]
            servers.append(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True))
            servers[-1].stdout.readline()  # it listens
        own = dict(environment, REEF_REMOTE=addresses[0], LD_LIBRARY_PATH=libraries)
        command = [program, str(options.seconds), str(options.mib), str(options.words), str(int(options.known))]
        child = subprocess.Popen(command, env=own, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        device = read_ready(child)
        at, pause, moves = 0, options.seconds / (2 * options.moves + 6), []
        for _ in range(options.moves):
            time.sleep(pause)
            moves.append(tool.move(worker(servers[at]), addresses[1 - at]))
            if "error" in moves[-1]:
                break
            at = 1 - at
        time.sleep(pause)
        snapshot = os.path.join(work, "snapshot")
        written, _ = tool.run("snapshot", worker(servers[at]), snapshot, "end")
        restored, stored = None, None
        if not tool.failures:
            stored = os.path.getsize(os.path.join(snapshot, "session.reef"))
            restored, _ = tool.run("restore", snapshot, addresses[at])
        timer = threading.Timer(options.seconds + 300, child.kill)
        timer.daemon = True
        timer.start()
        out = child.stdout.read()
        child.wait()
        is_right = child.returncode == 0 and out.startswith("right")
        found = re.search(r"(\d+) rounds, longest ([0-9.]+) ms", out)
        report = {
            "device": device,
            "mib": options.mib,
            "moves": moves,
            "snapshot_ms": round(written, 1),
            "snapshot_bytes": stored,
            "restore_ms": restored and round(restored, 1),
            "is_right": is_right,
            "rounds": int(found[1]) if found else None,
            "longest_round_ms": float(found[2]) if found else None,
            "program": out.strip(),
            "failures": tool.failures,
        }
        print(json.dumps(report, indent=2))
        sys.exit(0 if is_right and not tool.failures else 1)
    finally:
        for process in servers + [child]:
            if process:
                process.kill()
        shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    main()
