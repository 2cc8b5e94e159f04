"""Suspends and resumes unmodified programs at random times, and compares what they print with undisturbed runs.

    suspend.py FOLDER [--rounds N] [--seed N] [--longest S] [--refused | --move] [--swappable] NAME=COMMAND...

FOLDER has `reef` (tools/gpu_build.sh) and the library (tools/interpose/build.sh). Each program prints "ready" to standard error and one
digest. It runs undisturbed twice, then as a best-effort guest that is suspended at random times. Device memory is read
by nvidia-smi while it is suspended. Ends with 1 if a digest differs or a step fails. --refused: the driver must refuse
each suspension, as under MPS, and the program must run on. --move: it is moved to GPU 1 and back instead.
"""
import argparse
import json
import os
import random
import shlex
import subprocess
import sys
import tempfile
import time

parser = argparse.ArgumentParser()
parser.add_argument("folder")
parser.add_argument("--rounds", type=int, default=20)
parser.add_argument("--seed", type=int, default=5)
parser.add_argument("--longest", type=float, default=0.4, help="seconds between two suspensions, at most")
parser.add_argument("--refused", action="store_true")
parser.add_argument("--move", action="store_true")
parser.add_argument("--swappable", action="store_true", help="the program moves its own memory")
parser.add_argument("programs", nargs="+", metavar="NAME=COMMAND")
options = parser.parse_args()
reef = os.path.join(options.folder, "reef")
sockets = tempfile.mkdtemp()
place = ["--socket-dir", sockets]


swappable = ["--swappable"] if options.swappable else []


def used_mib(gpu=0):
    """Device memory in use, of all programs."""
    query = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits", "-i", str(gpu)]
    return int(subprocess.run(query, text=True, capture_output=True).stdout.split()[0])


def start(command):
    program = subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    for line in program.stderr:
        if "ready" in line:
            return program
    raise SystemExit(f"{shlex.join(command)}: ended before it was ready")


def end(program):
    """Its digest."""
    out, err = program.communicate(timeout=300)
    found = [line for line in out.splitlines() if line.startswith("digest ")]
    if program.returncode or not found:
        raise SystemExit(f"ended with {program.returncode}: {err[-600:]}")
    return found[0].split()[1]


def command(*words):
    begun = time.monotonic()
    done = subprocess.run([reef, *words, *place, "--json"], text=True, capture_output=True)
    if done.returncode:
        raise SystemExit(f"reef {shlex.join(words)}: {done.stderr.strip()}")
    return time.monotonic() - begun, json.loads(done.stdout)


def check(name, line):
    words = shlex.split(line)
    plain = [end(start(words)) for _ in range(2)]
    if plain[0] != plain[1]:
        raise SystemExit(f"{name}: two undisturbed runs print {plain}: it can't be compared")
    before = used_mib()
    program = start([reef, "exec", *place, "--class", "be", "--job", name, *swappable, "--", *words])
    if options.refused:
        return check_refusals(name, program, plain[0])
    if options.move:
        return check_moves(name, program, plain[0])
    running, suspended, out, back, rounds = used_mib(), 0, [], [], 0
    while rounds < options.rounds:
        time.sleep(random.uniform(0, options.longest))
        if program.poll() is not None:
            break
        seconds, all_ = command("suspend", name)
        out.append(seconds)
        held = sum(device["bytes"] for one in all_ for device in one["held"]) >> 20
        suspended = max(suspended, used_mib() - before)
        seconds, _ = command("resume", name)
        back.append(seconds)
        rounds += 1
    same = end(program) == plain[0]
    middle = lambda values: sorted(values)[len(values) // 2] if values else 0
    print(f"{name}: suspended {rounds} times; {held} MiB by the records, {running - before} MiB by nvidia-smi while it runs, "
          f"{suspended} while it is suspended; out {middle(out):.2f} s, back {middle(back):.2f} s (medians); "
          f"digest {plain[0][:12]} {'as undisturbed' if same else 'DIFFERS'}", flush=True)
    return same and rounds == options.rounds


def check_moves(name, program, digest):
    """Whether the program moves, with all of its memory, and ends with this digest."""
    times, placed = [], []
    for step in range(options.rounds):
        time.sleep(random.uniform(0, options.longest))
        if program.poll() is not None:
            break
        target = 1 - step % 2
        times.append(command("move", name, "--to", str(target))[0])
        placed.append(used_mib(target) - used_mib(1 - target))
    same = end(program) == digest
    middle = sorted(times)[len(times) // 2] if times else 0
    print(f"{name}: moved {len(times)} times, {middle:.2f} s (median), {min(placed, default=0)} MiB more on the GPU it moved to "
          f"than on the other one; digest {'as undisturbed' if same else 'DIFFERS'}", flush=True)
    return same and len(times) == options.rounds and min(placed) > 0


def check_refusals(name, program, digest):
    """Whether each suspension is refused and the program ends with this digest."""
    said = set()
    for _ in range(3):
        time.sleep(random.uniform(0, options.longest))
        done = subprocess.run([reef, "suspend", name, *place], text=True, capture_output=True)
        said.add(done.stderr.strip() if done.returncode else "suspended")
    same = end(program) == digest
    print(f"{name}: {'; '.join(sorted(said))}; digest {'as undisturbed' if same else 'DIFFERS'}", flush=True)
    return same and "suspended" not in said


random.seed(options.seed)
environment = dict(os.environ, REEF_SHIM=os.path.join(options.folder, "libreef_cuda_shim.so"))
os.environ.update(environment)
daemon = subprocess.Popen([reef, "serve", "--guests", *place, "--log", "json"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
try:
    time.sleep(1)
    results = [check(*program.split("=", 1)) for program in options.programs]
finally:
    daemon.terminate()
    daemon.wait(20)
sys.exit(0 if all(results) else 1)
