#!/usr/bin/env python3
"""Probe of the host: wakes up every 5 ms and does a fixed piece of work, apart from all programs that are measured.

host.py
    For each line of input writes a line of JSON with all samples since the last one: when it woke up (CLOCK_MONOTONIC,
    in seconds), by how many microseconds late, and for how many it worked. Ends with its input.

It uses no GPU, so what it finds is the host's doing, whatever way the programs run in. Its work is that of an
interpreter, as most of a program's is that waits for its host: the same operations each time, some 3 % of a processor.
"""
import json
import sys
import threading
import time

INTERVAL = 0.005
WORK = range(2000)


def sample(due):
    """Sleeps until this time, and works. Returns a sample."""
    time.sleep(max(0.0, due - time.monotonic()))
    woken = time.monotonic()
    sum(one * one for one in WORK)
    return woken, (woken - due) * 1e6, (time.monotonic() - woken) * 1e6


def measure(samples):
    due = time.monotonic()
    while True:
        # After a long delay the next wake-up is an interval later: what was missed is not made up.
        due = max(due + INTERVAL, time.monotonic())
        samples.append(sample(due))


def main():
    samples = []
    threading.Thread(target=measure, args=(samples,), daemon=True).start()
    for _ in sys.stdin:
        taken = samples[:]
        del samples[: len(taken)]
        print(json.dumps([[round(one, 6) for one in each] for each in taken]), flush=True)


if __name__ == "__main__":
    main()
