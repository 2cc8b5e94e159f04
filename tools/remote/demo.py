#!/usr/bin/env python3
"""The demo's table on a device of this process, and on the same device of another process.

    tools/remote/demo.py REEF [--device cpu:0] [--rounds 3] [--time 3s] [--json FILE] [-- more options of `reef demo`]

REEF is the command. Prints for each scheduler the median of the rounds: the p50 of a real-time request and the part of
best-effort work that is kept, on this process's device, over a UNIX socket and over TCP. Rounds take turns. Before them: the
round trip of a byte between two processes over both sockets, whose readers sleep, as a median.
"""

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reef")
    parser.add_argument("--device", default="cpu:0")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--time", default="3s")
    parser.add_argument("--json")
    args, more = parser.parse_known_args()
    args.more = [option for option in more if option != "--"]
    trips = {family: round_trip(family) for family in ("unix", "tcp")}
    print("round trip in microseconds: " + ", ".join(f"{family} {trip:.0f}" for family, trip in trips.items()), flush=True)
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
    rows = table(results, places)
    if args.json:
        head = {"bench": "remote-demo", "command": " ".join(["tools/remote/demo.py"] + sys.argv[1:]), "round_trips_us": trips}
        with open(args.json, "w") as file:
            date, name = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), f"{args.device}, {os.cpu_count()} processors"
            json.dump(dict(head, date=date, device={"name": name}, rows=rows), file, indent=1)


def round_trip(family, rounds=2000):
    """Microseconds of a byte to a child process and back."""
    near, far = socket.socketpair() if family == "unix" else tcp_pair()
    child = os.fork()
    if child == 0:
        near.close()
        while far.recv(1):
            far.send(b"x")
        os._exit(0)
    far.close()
    times = []
    for _ in range(rounds):
        begin = time.perf_counter()
        near.send(b"x")
        near.recv(1)
        times.append(time.perf_counter() - begin)
        time.sleep(0.0005)
    near.close()
    os.waitpid(child, 0)
    return 1e6 * statistics.median(times)


def tcp_pair():
    with socket.create_server(("127.0.0.1", 0)) as server:
        near = socket.create_connection(server.getsockname())
        far = server.accept()[0]
    for end in (near, far):
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return near, far


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
    rows = []
    for name in dict.fromkeys(name for name, _ in results):
        line = f"{name:16}"
        here = statistics.median(rt for rt, _ in results[name, "here"])
        for place in places:
            times, kept = zip(*results[name, place])
            line += f"  {place} {statistics.median(times):9.1f} ({min(times):.0f} to {max(times):.0f}) {statistics.median(kept):5.3f}"
            row = {"scheduler": name, "place": place, "rt_p50_us": statistics.median(times), "be_kept": statistics.median(kept)}
            rows.append(dict(row, over_here_us=row["rt_p50_us"] - here))
        print(line, flush=True)
    return rows


if __name__ == "__main__":
    main()
