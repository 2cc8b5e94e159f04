#!/usr/bin/env bash
# The daemon on two devices next to one of them: best-effort throughput, and the latency of real-time requests next to it.
#
#     tools/two_gpus.sh [-b REEF] [-o FOLDER] [-m MODEL] [-s SECONDS] [DEVICE DEVICE]
#
#   -b REEF      the program (default: target/gpu/reef)
#   -o FOLDER    where results lie (default: out/two_gpus); called again, what is there is not measured again
#   -m MODEL     a network by name (default: resnet50)
#   -s SECONDS   of each of the 8 measurements (default: 15, 3 minutes in all)
#
# Default devices: cuda:0 cuda:1. Exit codes: 0 as wanted, 1 not, 2 the command line is wrong. Wanted are 1.95 times the
# throughput at least, and of real-time requests a p99 of 1.2 times the one device's at most. Two rounds, in turns.
# Needs bash and python3. Without GPUs: tools/two_gpus.sh -b target/debug/reef -s 5 cpu:0?units=1 cpu:1?units=1
set -euo pipefail
cd "$(dirname "$0")/.."
reef=target/gpu/reef out=out/two_gpus model=resnet50 seconds=15
while getopts b:o:m:s: option; do
    case $option in
        b) reef=$OPTARG ;;
        o) out=$OPTARG ;;
        m) model=$OPTARG ;;
        s) seconds=$OPTARG ;;
        *) exit 2 ;;
    esac
done
shift $((OPTIND - 1))
[ $# = 0 ] || [ $# = 2 ] || { echo "two devices are wanted" >&2; exit 2; }
[ $# = 2 ] && devices=("$@") || devices=(cuda:0 cuda:1)
mkdir -p "$out"
exec python3 - "$reef" "$out" "$model" "$seconds" "${devices[@]}" <<'PYTHON'
import json
import os
import socket
import subprocess
import sys
import tempfile
import time

REEF, OUT, MODEL, SECONDS, *DEVICES = sys.argv[1:]
SECONDS = float(SECONDS)
BEST_EFFORT = 3  # clients for each device: they keep it busy
ROUNDS = 2
LEAST, MOST = 1.95, 1.2


def metrics(folder):
    with socket.socket(socket.AF_UNIX) as way:
        way.connect(os.path.join(folder, "http.sock"))
        way.sendall(b"GET /metrics HTTP/1.1\r\nhost: d\r\nconnection: close\r\n\r\n")
        text = b"".join(iter(lambda: way.recv(1 << 16), b"")).decode()
    return [line for line in text.splitlines() if line.startswith("reef_")]


def value(folder, name, part):
    """The sum of the lines of this name with this text."""
    lines = [line for line in metrics(folder) if line.startswith(name + "{") and part in line]
    return sum(float(line.split()[-1]) for line in lines)


def client(folder, output, *more):
    command = [REEF, "request", MODEL, "--socket-dir", folder, "--continuous", "--json", *more]
    return subprocess.Popen(command, stdout=output, stderr=subprocess.DEVNULL, text=True)


def throughput(folder):
    """Best-effort requests in a second."""
    served = lambda: value(folder, "reef_requests_served_total", 'class="be"')
    before, begun = served(), time.monotonic()
    time.sleep(SECONDS)
    return (served() - before) / (time.monotonic() - begun)


def latencies(folder, count):
    """Of one real-time client for each device, in milliseconds."""
    files = [tempfile.TemporaryFile("w+", dir=folder) for _ in range(count)]
    clients = [client(folder, file, "--class", "rt", "--sleep", "5ms") for file in files]
    time.sleep(SECONDS)
    times = []
    for each, file in zip(clients, files):
        each.terminate()
        each.wait()
        file.seek(0)
        lines = [line for line in file if line.endswith("}\n")]
        own = [json.loads(line)["latency_ms"] for line in lines][10:]  # the first ones warm up
        assert own, "a real-time client had no answer"
        times += own
    return times


def measured(devices):
    with tempfile.TemporaryDirectory() as folder:
        command = [REEF, "serve", "--device", ",".join(devices), "--socket-dir", folder, "--load", MODEL]
        command += ["--set", "models.builtin=true", "--set", "models.replicas=0"]
        environment = {**os.environ, "REEF_LOG": "error"}
        daemon = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        clients = []
        try:
            assert any(line.strip() == "ready" for line in daemon.stdout), "the daemon did not start"
            while len(clients) < BEST_EFFORT * len(devices):
                clients.append(client(folder, subprocess.DEVNULL))
                while value(folder, "reef_clients", 'path="local"') < len(clients):
                    assert clients[-1].poll() is None, "a client ended"
                    time.sleep(0.01)  # it is on its device before the next one chooses
            time.sleep(1)
            return {"throughput": throughput(folder), "times": latencies(folder, len(devices))}
        finally:
            for each in [*clients, daemon]:
                each.terminate()
                each.wait()


def kept(name, devices):
    path = os.path.join(OUT, f"{name}.json")
    if not os.path.exists(path):
        found = {"model": MODEL, "devices": devices, "seconds": SECONDS, **measured(devices)}
        with open(path + ".new", "w") as file:
            json.dump(found, file)
        os.rename(path + ".new", path)
    with open(path) as file:
        found = json.load(file)
    asked = [MODEL, devices, SECONDS]
    assert [found["model"], found["devices"], found["seconds"]] == asked, f"{path} is of another run"
    return found


def part(times, of):
    return sorted(times)[int(len(times) * of)]


def main():
    both = " and ".join(DEVICES)
    print(f"{MODEL}, {BEST_EFFORT} best-effort clients and one real-time client for each device, {SECONDS:.0f} s each")
    ways = {"one": DEVICES[:1], "two": DEVICES}
    rates, times = {"one": [], "two": []}, {"one": [], "two": []}
    for turn in range(ROUNDS):
        for way, devices in ways.items():
            found = kept(f"{way}_{turn}", devices)
            rates[way].append(found["throughput"])
            times[way] += found["times"]
            each = found["times"]
            latency = ", ".join(f"p{of * 100:.0f} {part(each, of):.3f}" for of in (0.5, 0.99))
            print(f"{' and '.join(devices)}: {found['throughput']:.1f} best-effort requests/s, "
                  f"real-time {latency} ms of {len(each)}", flush=True)
    gain = sum(rates["two"]) / sum(rates["one"])
    p99 = {way: part(all, 0.99) for way, all in times.items()}
    print(f"{both}: {gain:.3f} x the throughput of {DEVICES[0]} ({LEAST} wanted), "
          f"real-time p99 {p99['two']:.3f} ms next to {p99['one']:.3f} ms (at most {MOST} x)")
    sys.exit(0 if gain >= LEAST and p99["two"] <= MOST * p99["one"] else 1)


main()
PYTHON
