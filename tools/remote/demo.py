#!/usr/bin/env python3
"""The demo's table on a device of this process, and on the same device of another process.

    tools/remote/demo.py REEF [--device cpu:0] [--rounds 3] [--time 3s] [-- more options of `reef demo`]

REEF is the command. Prints for each scheduler the median of the rounds: the p50 of a real-time request and the part of
best-effort work that is kept, on this process's device, over a UNIX socket and over TCP. Rounds take turns.
"""

import argparse
import json
import os
import statistics
import subprocess
import tempfile


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reef")
    parser.add_argument("--device", default="cpu:0")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--time", default="3s")
    args, more = parser.parse_known_args()
    args.more = [option for option in more if option != "--"]
    servers = []
    with tempfile.TemporaryDirectory() as work:
        places = {"here": args.device}
        try:
            for name, listen in (("unix", f"unix:{work}/reef.sock"), ("tcp", "127.0.0.1:0")):
                command = [args.reef, "remote", "serve", "--own", "--listen", listen]
                server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
                servers.append(server)
                places[name] = f"remote:{server.stdout.readline().split()[-1]}/{args.device}"
            results = measure(args, places, work)
        finally:
            for server in servers:
                server.kill()
                server.wait()
    table(results, places)


def measure(args, places, work):
    results = {}
    for number in range(args.rounds):
        for place, device in places.items():
            command = [args.reef, "demo", "--device", device, "--time", args.time, "--json", "--out", os.path.join(work, "out")]
            said = subprocess.run(command + args.more, capture_output=True, text=True)
            if said.returncode != 0:
                raise SystemExit(f"{place}: {said.stderr.strip()[-500:]}")
            for row in json.loads(said.stdout)["measurements"]:
                results.setdefault((row["name"], place), []).append((row["rt_latency_us"]["p50"], row["be_kept"]))
        print(f"round {number + 1} of {args.rounds}", flush=True)
    return results


def table(results, places):
    print("RT p50 in microseconds, best-effort work kept; the range of the rounds")
    for name in dict.fromkeys(name for name, _ in results):
        line = f"{name:16}"
        for place in places:
            times, kept = zip(*results[name, place])
            line += f"  {place} {statistics.median(times):9.1f} ({min(times):.0f} to {max(times):.0f}) {statistics.median(kept):5.3f}"
        print(line, flush=True)


if __name__ == "__main__":
    main()
