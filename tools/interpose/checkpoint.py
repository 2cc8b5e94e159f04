"""Writes programs to folders, starts them from there, and compares what they print with undisturbed runs.

    checkpoint.py FOLDER [--rounds N] [--seed N] NAME=COMMAND...

FOLDER has `reef` and `libreef_cuda_shim.so` (tools/gpu_build.sh). Each program prints "ready" to standard error and one
digest. It runs undisturbed twice, and then in each of four ways: by itself, as a best-effort guest, with a limit of
memory, and as a swappable guest. Ends with 1 if a digest differs or a step fails. Without CRIU 4, root or ptrace it says
"skipped" with the reason, and ends with 0.
"""
import argparse
import ctypes
import json
import os
import random
import shlex
import subprocess
import sys
import tempfile
import time

from criu import missing

parser = argparse.ArgumentParser()
parser.add_argument("folder")
parser.add_argument("--rounds", type=int, default=2, help="checkpoints of each program, at most")
parser.add_argument("--seed", type=int, default=5)
parser.add_argument("programs", nargs="+", metavar="NAME=COMMAND")
options = parser.parse_args()
reef = os.path.join(options.folder, "reef")
work = tempfile.mkdtemp()
place = ["--socket-dir", os.path.join(work, "sockets")]
WAYS = {
    "by itself": None,
    "guest": ["--class", "be", "--bind", "never"],
    "limited": ["--class", "be", "--bind", "never", "--memory", "32GiB"],
    "swappable": ["--class", "be", "--bind", "never", "--swappable"],
}


class Program:
    """A program whose output is in files: it must have no pipe to a process that is not written."""

    def __init__(self, words):
        self.out, self.err = (os.path.join(work, name) for name in ("out", "err"))
        with open(self.out, "w") as out, open(self.err, "w") as err:
            self.child = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True)
        self.pid = self.child.pid
        self.wait(lambda: "ready" in self.text(self.err), 300, "was not ready")

    def text(self, name):
        with open(name) as file:
            return file.read()

    def digest(self):
        found = [line for line in self.text(self.out).splitlines() if line.startswith("digest ")]
        return found[0].split()[1] if found else None

    def is_alive(self):
        if self.child.poll() is None:
            return True
        try:  # started from a folder, it is not a child
            with open(f"/proc/{self.pid}/stat") as stat:
                return stat.read().rsplit(")", 1)[1].split()[0] not in "ZX"
        except OSError:
            return False

    def wait(self, is_so, seconds, what):
        end = time.monotonic() + seconds
        while not is_so():
            if not self.is_alive() and not is_so():
                raise SystemExit(f"the program has ended and {what}: {self.text(self.err)[-600:]}")
            if time.monotonic() > end:
                raise SystemExit(f"the program {what} after {seconds} s: {self.text(self.err)[-600:]}")
            time.sleep(0.05)

    def reap(self):
        """Waits for its end: its number must be free for the start from a folder."""
        if self.child.returncode is None:
            self.child.wait(60)
        else:
            os.waitpid(self.pid, 0)  # a start from a folder has made it a child of this process

    def end(self):
        self.wait(lambda: self.digest() is not None, 300, "has no digest")
        return self.digest()


def command(*words):
    begun = time.monotonic()
    done = subprocess.run([reef, *words, *place, "--json"], text=True, capture_output=True)
    if done.returncode:
        raise SystemExit(f"reef {shlex.join(words)}: {done.stderr.strip()}")
    return time.monotonic() - begun, json.loads(done.stdout)


def check(name, line):
    words = shlex.split(line)
    plain = [Program(words).end() for _ in range(2)]
    if plain[0] != plain[1]:
        raise SystemExit(f"{name}: two undisturbed runs print {plain}: it can't be compared")
    results = []
    for way, exec_options in WAYS.items():
        before = [] if exec_options is None else [reef, "exec", *place, *exec_options, "--job", name, "--"]
        program = Program([*before, *words])
        out, back, mib = [], [], 0
        for number in range(options.rounds):
            time.sleep(random.uniform(0, 1))
            if program.digest() is not None:
                break
            folder = os.path.join(work, f"{name}-{way.replace(' ', '-')}-{number}")
            seconds, records = command("checkpoint", str(program.pid), "--out", folder)
            out.append(seconds)
            mib = sum(held["bytes"] for one in records for held in one["held"]) >> 20
            program.reap()
            back.append(command("restore", folder)[0])
        same = program.end() == plain[0]
        shown = ", ".join(f"written in {a:.1f} s, back in {b:.1f} s" for a, b in zip(out, back))
        print(f"note: {name}, {way}: {mib} MiB, {shown}; digest {'as undisturbed' if same else 'DIFFERS'}", flush=True)
        results.append(same and bool(back))
    return all(results)


reason = missing()
if reason:
    print(f"skipped: {reason}")
    sys.exit(0)
random.seed(options.seed)
PR_SET_CHILD_SUBREAPER = 36
if ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
    raise SystemExit("this process cannot be the parent of programs that are started from a folder")
daemon = subprocess.Popen([reef, "serve", "--guests", *place, "--log", "json"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
try:
    time.sleep(1)
    results = [check(*program.split("=", 1)) for program in options.programs]
finally:
    daemon.terminate()
    daemon.wait(20)
sys.exit(0 if all(results) else 1)
