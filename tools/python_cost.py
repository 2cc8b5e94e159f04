#!/usr/bin/env python3
"""What a call from Python costs next to the library's own time: python tools/python_cost.py [DEVICE [MODEL]]

Prints, in microseconds, the median and 99th percentile of `rt.run` and of the request's own time (submission to end), with
best-effort work on the device all the time, and whether each output is right.
"""

import statistics
import sys
import time

import numpy as np
import reef

COUNT = 500


def main():
    device = reef.open(sys.argv[1] if len(sys.argv) > 1 else "cuda:0")
    net = device.load(sys.argv[2] if len(sys.argv) > 2 else "resnet50", batch=1)
    x = np.random.default_rng(0).random(net.inputs[0].shape, dtype=np.float32)
    print(device, net.name, flush=True)
    for has_best_effort in (False, True):
        whole, own, right = [], [], 0
        with device.real_time() as rt, device.best_effort() as be:
            expected = rt.run(net, x)
            jobs = []
            for _ in range(COUNT):
                jobs = [job for job in jobs if not job.done()]
                while has_best_effort and len(jobs) < 4:
                    jobs.append(be.submit(net, x))
                begin = time.perf_counter()
                output = rt.run(net, x)
                whole.append(1e6 * (time.perf_counter() - begin))
                future = rt.submit(net, x)
                future.result()
                own.append(1e6 * future.timing.total)
                right += np.array_equal(output, expected)
            right_jobs = sum(np.array_equal(job.result(), expected) for job in jobs)
        print(
            f"best-effort work {has_best_effort}: run {middle(whole)}, the request's own time {middle(own)}, "
            f"difference of medians {statistics.median(whole) - statistics.median(own):.1f}; "
            f"{right} of {COUNT} outputs right, {right_jobs} of {len(jobs)} jobs; {device.stats()}",
            flush=True,
        )


def middle(times):
    return f"{statistics.median(times):.1f} / {statistics.quantiles(times, n=100)[98]:.1f}"


main()
