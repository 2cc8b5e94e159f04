"""A real-time program that needs more memory than is free, next to a best-effort one that leaves for it.

    memory.py FOLDER [--keeps GIB] [--needs GIB] [--steps N]

FOLDER has `reef` (tools/gpu_build.sh) and the library (tools/interpose/build.sh). The best-effort program trains and keeps GIB GiB; the
real-time one needs so much that both don't fit. Prints a line for each way, and ends with 1 if one is wrong.
"""
import argparse
import os
import subprocess
import sys
import tempfile
import time

parser = argparse.ArgumentParser()
parser.add_argument("folder")
parser.add_argument("--keeps", type=int, default=40)
parser.add_argument("--needs", type=int, default=110)
parser.add_argument("--steps", type=int, default=6000)
options = parser.parse_args()
reef = os.path.join(options.folder, "reef")
program = ["python3", os.path.join(os.path.dirname(os.path.abspath(__file__)), "deterministic.py")]
train = [*program, "train", str(options.steps), str(options.keeps)]
serve = [*program, "serve", "5", str(options.needs)]
os.environ["REEF_SHIM"] = os.path.join(options.folder, "libreef_cuda_shim.so")


def start(command):
    """The program, once it is ready or has ended, with the lines of its standard error."""
    child, said = subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE), []
    for line in child.stderr:
        said.append(line)
        if "ready" in line:
            break
    return child, said


def output(started):
    child, said = started
    out, err = child.communicate(timeout=300)
    if child.returncode:
        return "failed: " + ("".join(said) + err).strip().splitlines()[-1][:100]
    return (out.strip().splitlines() or [""])[-1]


def colocated(name, settings, more, is_alone=False):
    """The real-time program as a guest of a daemon of these settings, next to the best-effort one unless it is alone."""
    sockets = tempfile.mkdtemp()
    place = ["--socket-dir", sockets]
    daemon = subprocess.Popen([reef, "serve", "--guests", *place, *settings], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(1)
    try:
        be = [reef, "exec", *place, "--class", "be", "--job", "training", "--", *train]
        training = None if is_alone else start(be)
        begin = time.monotonic()
        served = output(start([reef, "exec", *place, "--class", "rt", *more, "--", *serve]))
        seconds = time.monotonic() - begin
        result = output(training) if training else undisturbed
    finally:
        daemon.terminate()
        daemon.wait(30)
    same = result == undisturbed
    result = "none" if is_alone else "as undisturbed" if same else f"DIFFERS: {result}"
    print(f"{name}: {served}; the program took {seconds:.1f} s; training {result}", flush=True)
    return same, served


undisturbed = output(start(train))
alone = output(start(serve))
print(f"without REEF, alone: {alone}; training {undisturbed[:20]}", flush=True)
on = ["--set", "guests.suspend=true"]
results = [
    colocated("guest alone", on, [], is_alone=True),
    colocated("without the policy", [], []),
    colocated("refused memory", on, []),
    colocated("reserved memory", on, ["--reserve", f"{options.needs + 2}GiB"]),
]
wrong = [not same for same, _ in results]
served = [served.startswith("serve:") for _, served in results]
wrong += [served != [True, False, True, True]]
sys.exit(1 if any(wrong) else 0)
