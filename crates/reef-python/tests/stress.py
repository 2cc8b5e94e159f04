"""Threads and asyncio on one device and one daemon for a while: each request must end once, with the output of its input.

    python stress.py [SECONDS [SEED]]

Each of four threads sends real-time and best-effort requests, waits for them, abandons or cancels some, and closes its clients now and
then. A loop of asyncio does the same with `await`. Prints what was sent, and how it ended; the numbers must agree.
"""

import asyncio
import collections
import random
import sys
import threading
import time

import numpy as np
import reef

IMAGES = 8
SIZE = 32


class Counts:
    """Numbers of requests by the way they ended."""

    def __init__(self):
        self.lock = threading.Lock()
        self.all = collections.Counter()

    def add(self, name, number=1):
        with self.lock:
            self.all[name] += number


class Target:
    """A device, or the model of a daemon: what a request goes to."""

    def __init__(self, name, clients, network, expected):
        self.name, self.clients, self.network, self.expected = name, clients, network, expected
        self.inputs = [image(seed) for seed in range(IMAGES)]


def image(seed):
    return np.random.default_rng(seed).random((1, 3, SIZE, SIZE), dtype=np.float32)


def checked(counts, target, which, output):
    counts.add(f"{target.name}: right" if np.array_equal(output, target.expected[which]) else f"{target.name}: WRONG")


def submitted(counts, target, client, which):
    """A request that is on its way; none if there is no room."""
    counts.add(f"{target.name}: sent")
    try:
        return client.submit(target.network, target.inputs[which])
    except reef.BusyError:
        counts.add(f"{target.name}: refused, busy")
        return None


def threaded(counts, targets, seed, end):
    source = random.Random(seed)
    while time.monotonic() < end:
        target = source.choice(targets)
        with target.clients[source.random() < 0.5]() as client:
            for _ in range(source.randrange(1, 30)):
                jobs = []
                for _ in range(source.randrange(1, 5)):
                    which = source.randrange(IMAGES)
                    if (job := submitted(counts, target, client, which)) is not None:
                        jobs.append((which, job))
                source.shuffle(jobs)
                for which, job in jobs:
                    if target.name == "device" and source.random() < 0.05:
                        try:
                            cancelled = job.cancel()
                        except reef.UnsupportedError:
                            cancelled = False  # best-effort work
                        if cancelled:
                            counts.add(f"{target.name}: cancelled")
                            continue
                    while True:
                        try:
                            output = job.result(timeout=source.choice([None, 1e-4]))
                        except TimeoutError:
                            continue  # it goes on
                        checked(counts, target, which, output)
                        break


async def awaiting(counts, targets, seed, end):
    async def one(target, client, which):
        if (job := submitted(counts, target, client, which)) is not None:
            checked(counts, target, which, await job)

    async def many(number):
        source = random.Random(seed + number)
        while time.monotonic() < end:
            target = source.choice(targets)
            with target.clients[source.random() < 0.5]() as client:
                tasks = (one(target, client, source.randrange(IMAGES)) for _ in range(source.randrange(1, 6)))
                await asyncio.gather(*tasks)
            await asyncio.sleep(0)  # sleep: others run

    await asyncio.gather(*(many(number) for number in range(3)))


def run(seconds, seed, targets):
    """Counts after that many seconds.

    Raises AssertionError if a request was lost, had another one's output, or a thread never ended.
    """
    counts, end = Counts(), time.monotonic() + seconds
    failures = []

    def guarded(number):
        try:
            threaded(counts, targets, seed * 1000 + number, end)
        except BaseException as failure:  # noqa: BLE001 it is told by the main thread
            failures.append(failure)

    threads = [threading.Thread(target=guarded, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    asyncio.run(awaiting(counts, targets, seed * 1000 + 500, end))
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive(), f"a thread waits for ever; seed {seed}: {counts.all}"
    assert not failures, f"seed {seed}: {failures!r}"
    for target in targets:
        of = {name: number for name, number in counts.all.items() if name.startswith(f"{target.name}: ")}
        sent = of.pop(f"{target.name}: sent")
        assert sent == sum(of.values()) and f"{target.name}: WRONG" not in of, f"seed {seed}: {counts.all}"
    return counts.all


def on_device(device):
    net = device.load("resnet18", batch=1, input_size=SIZE, seed=1, instances=16)
    with device.real_time() as rt:
        expected = [rt.run(net, image(seed)) for seed in range(IMAGES)]
    return Target("device", (device.best_effort, device.real_time), net, expected)


def on_daemon(daemon, model, expected):
    return Target("daemon", (daemon.best_effort, daemon.real_time), model, expected)


def main(seconds, seed):
    import test_daemon

    with reef.open("cpu:0?units=2") as device:
        targets = [on_device(device)]
        process = test_daemon.COMMAND and test_daemon.Process()
        if not process:
            print("skipped: no daemon: no command reef in PATH")
            counts = run(seconds, seed, targets)
        else:
            try:
                with reef.connect(process.sockets) as daemon:
                    targets.append(on_daemon(daemon, "tiny", targets[0].expected))
                    counts = run(seconds, seed, targets)
            finally:
                process.end()
    for name, number in sorted(counts.items()):
        print(f"{number:10} {name}")
    print(f"{seconds} s, seed {seed}: no request was lost")


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 600, int(sys.argv[2]) if len(sys.argv) > 2 else 1)
