#!/usr/bin/env python3
"""Time of an inference on a device of another process, by round trip, next to the same device of this process.

    tools/remote/networks.py REEF [--device cuda:0] [--models resnet50] [--rtt none,0.1,1,5,30] [--bandwidth 100mbit,1gbit]
                             [--time 1s] [--rounds 3] [--spin 0us] [--json FILE] [-- more options of `reef bench networks`]

REEF is the command. The server's device is shared, as `reef remote serve` has it. Lines are emulated by the client, over a UNIX
socket; with `none` the line is as it is: shared memory, a UNIX socket, TCP.

Columns, medians of the rounds in milliseconds: p50 of an inference here and there, and the floor: round trip, bytes of input and
output at the line's bandwidth, and the time here. An inference is one after the other, with its input and output on the host.
The last column: best-effort inferences a second there as a part of those here, 64 commands in flight, without copies.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile

# An input of 3 x 224 x 224 numbers of 4 bytes, and an output of 1000.
CONTENT = 4 * (3 * 224 * 224 + 1000)
UNITS = {"gbit": 1e9, "mbit": 1e6, "kbit": 1e3}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reef")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--models", default="resnet50")
    parser.add_argument("--rtt", default="none,0.1,1,5,30", help="milliseconds; none: the line as it is")
    parser.add_argument("--bandwidth", default="100mbit,1gbit")
    parser.add_argument("--time", default="1s")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--spin", default="0us", help="time for which both ends look for messages before they sleep")
    parser.add_argument("--json")
    args, more = parser.parse_known_args()
    args.more = [option for option in more if option != "--"]
    servers = []
    with tempfile.TemporaryDirectory() as work:
        try:
            places = {}
            for name, listen in (("shm", f"shm:{work}/shm.sock"), ("unix", f"unix:{work}/reef.sock"), ("tcp", "127.0.0.1:0")):
                command = [args.reef, "remote", "serve", "--listen", listen, "--spin", args.spin]
                server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
                servers.append(server)
                places[name] = f"remote:{server.stdout.readline().split()[-1]}/{args.device}?remote.spin={args.spin}"
            lines = [(rtt, bandwidth) for rtt in args.rtt.split(",") if rtt != "none" for bandwidth in args.bandwidth.split(",")]
            devices = {("here", None, None): args.device}
            if "none" in args.rtt.split(","):
                devices |= {(name, None, None): place for name, place in places.items()}
            for rtt, bandwidth in lines:
                line = f"rtt:{rtt}ms+bw:{bandwidth}"
                devices["unix", float(rtt), bandwidth] = f"{places['unix']}&remote.emulate={line}"
            found = measure(args, devices)
            rows = table(found)
        finally:
            for server in servers:
                server.kill()
                server.wait()
    if args.json:
        with open(args.json, "w") as file:
            command = " ".join(["tools/remote/networks.py"] + sys.argv[1:])
            json.dump(dict(args.head, bench="remote-networks", command=command, rows=rows), file, indent=1)


def measure(args, devices):
    found = {}
    for number in range(args.rounds):
        for key, device in devices.items():
            command = [args.reef, "bench", "networks", "--device", device, "--time", args.time, "--window", "64", "--json"]
            said = subprocess.run(command + args.more + args.models.split(","), capture_output=True, text=True)
            if said.returncode != 0:
                raise SystemExit(f"{device}: {said.stderr.strip()[-500:]}")
            result = json.loads(said.stdout)
            if key[0] == "here":
                args.head = {"date": result["date"], "device": result["device"]}
            for row in result["rows"]:
                found.setdefault((row["network"], key), []).append((row["total_p50_ms"], row["best_effort_ms"]))
        print(f"round {number + 1} of {args.rounds}", flush=True)
    return found


def table(found):
    rows = []
    print("| model | line | RTT, ms | bandwidth | here, ms | there, ms | floor, ms | best effort |", flush=True)
    print("|---|---|--:|---|--:|--:|--:|--:|", flush=True)
    medians = {key: [statistics.median(column) for column in zip(*rounds)] for key, rounds in found.items()}
    for (model, (place, rtt, bandwidth)), (there, best_effort) in medians.items():
        here, best_effort_here = medians[model, ("here", None, None)]
        if place == "here":
            continue
        seconds = 0 if bandwidth is None else 8 * CONTENT / bits_per_second(bandwidth)
        floor, kept = here + (rtt or 0) + 1000 * seconds, best_effort_here / best_effort
        rows.append(dict(model=model, line=place, rtt_ms=rtt, bandwidth=bandwidth, here_ms=here, there_ms=there, floor_ms=floor,
                         best_effort=kept, rounds_ms=found[model, (place, rtt, bandwidth)]))
        shown = ["as it is" if rtt is None else f"{rtt:g}", bandwidth or "as it is"]
        print(f"| {model} | {place} | {shown[0]} | {shown[1]} | {here:.3f} | {there:.3f} | {floor:.3f} | {kept:.3f} |", flush=True)
    return rows


def bits_per_second(text):
    return float(text[:-4]) * UNITS[text[-4:]]


if __name__ == "__main__":
    main()
