#!/usr/bin/env python3
"""Profile for `reef simulate` of programs under MPS, from rows of tools/pairs/colocate.py.

fleet_profile.py FILE.json > PROFILE.json

Reads the rows `mps+alone` and `mps` of each pair RT+BE alone: nothing that ran with a share, a floor, a target or
limited threads. The second program of a pair has the pressure 1, outside of its peak. The peak is that of the pair whose
first program is slowed the most by it. A first program's sensitivity is that which gives its measured mean, and its pressure
gives what the second program kept.
"""
import collections
import json
import sys


def solve(function, low, high):
    """Zero of a growing function."""
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if function(middle) < 0 else (low, middle)
    return low


def peak_of(alone, free):
    """Part of the time and pressure of the part that slows others most: from mean, median and 99th percentile."""
    mean, usual, most = (free[key] / alone[key] for key in ("mean", "p50", "p99"))
    if not 1.1 < usual < mean < most:
        return None
    part = (1 / usual - 1 / mean) / (1 / usual - 1 / most)
    return {"part": round(part, 3), "pressure": round((most - 1) / (usual - 1), 2)}


def main():
    rows = json.load(open(sys.argv[1]))
    pairs = collections.defaultdict(dict)
    for row in rows:
        pairs[row["pair"]][row["way"]] = row
    networks, peaks = {}, {}
    for pair, ways in pairs.items():
        alone, free, second = ways["mps+alone"]["rt"], ways["mps"]["rt"], pair.split("+")[1]
        peak = peak_of(alone, free)
        if peak and free["p99"] / alone["p99"] > peaks.get(second, (0, None))[0]:
            peaks[second] = free["p99"] / alone["p99"], peak
    for pair, ways in pairs.items():
        first, second = pair.split("+")
        alone, free, be = ways["mps+alone"]["rt"], ways["mps"]["rt"], ways["mps+alone"]["be"]
        peak = peaks.get(second, (0, None))[1]
        part, pressure = (peak["part"], peak["pressure"]) if peak else (0, 1)
        mean = max(free["mean"] / alone["mean"], 1)
        slowed = lambda s: 1 / (part / (1 + s * pressure) + (1 - part) / (1 + s)) - mean
        networks[first] = {
            "alone_us": round(1e3 * alone["p50"], 1),
            "sensitivity": round(solve(slowed, 0, 100), 4),
            "pressure": round(max(100 / ways["mps"]["kept"] - 1, 0), 3),
            "tail": round(alone["p99"] / alone["p50"], 3),
        }
        networks[second] = {"alone_us": round(1e6 / be["per_s"], 1), "sensitivity": 1.0, "pressure": 1.0}
        if peak:
            networks[second]["peak"] = peak
    device = {"period_us": 1000}
    json.dump({"device": device, "networks": dict(sorted(networks.items()))}, sys.stdout, indent=4)
    print()


main()
