#!/usr/bin/env python3
"""Which part of a move delays other processes: each part by itself in a loop, next to probes of the host and of the GPU.

    tools/interpose/move_stalls.py [--seconds 3] [--gib 64] [--cycles 8] [PART ...]

Needs NVIDIA's driver and nothing else; `checkpoint` needs version 570. Real-time work is stood for by three probes: a byte to another process
and back, a kernel of one thread, and a copy of 4 bytes to the host. Prints p50, p99 and the longest time of each in milliseconds, and how
much of the part was done. `touch` writes --gib of new host memory twice, the second time in pages that the machine has used before; it
comes first, because later parts use pages, too. `dma` has 16 chunks of 4 MiB under way in each direction, `dma-few` 2. `memcpy-idle` has the
policy SCHED_IDLE. `checkpoint` makes --cycles round trips of a process with 64 MiB.
"""
import argparse
import ctypes
import itertools
import multiprocessing
import os
import subprocess
import sys
import threading
import time
from ctypes import byref, c_int, c_size_t, c_uint, c_uint64, c_void_p

MIB = 1 << 20
CHUNK = 4 * MIB
PIECE = 128 * MIB
SLEEPING = 3  # events: a thread that waits sleeps, and no times
KERNEL = b"""
.version 7.0
.target sm_70
.address_size 64
.visible .entry add(.param .u64 at) {
    .reg .b64 %a;
    .reg .b32 %v;
    ld.param.u64 %a, [at];
    ld.global.u32 %v, [%a];
    add.u32 %v, %v, 1;
    st.global.u32 [%a], %v;
    ret;
}
"""
fork = multiprocessing.get_context("fork")
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = c_void_p
libc.mmap.argtypes = [c_void_p, c_size_t, c_int, c_int, c_int, ctypes.c_long]
libc.munmap.argtypes = [c_void_p, c_size_t]
libc.madvise.argtypes = [c_void_p, c_size_t, c_int]
libc.memset.argtypes = [c_void_p, c_int, c_size_t]
libc.memcpy.argtypes = [c_void_p, c_void_p, c_size_t]


class Driver:
    """The driver's calls by name. The process ends at the first that is refused."""

    def __init__(self, has_context=True):
        try:
            self.library = ctypes.CDLL("libcuda.so.1")
        except OSError as error:
            raise SystemExit(f"no driver: {error}") from None
        self("cuInit", 0)
        if has_context:
            device, context = c_int(), c_void_p()
            self("cuDeviceGet", byref(device), 0)
            self("cuDevicePrimaryCtxRetain", byref(context), device)
            self("cuCtxSetCurrent", context)

    def __call__(self, name, *arguments):
        code = getattr(self.library, name)(*arguments)
        if code:
            raise SystemExit(f"{name}: code {code}")

    def device_memory(self, bytes):
        at = c_uint64()
        self("cuMemAlloc_v2", byref(at), c_size_t(bytes))
        return at

    def pinned(self, bytes):
        at = c_void_p()
        self("cuMemHostAlloc", byref(at), c_size_t(bytes), 1)
        return at

    def stream(self):
        stream = c_void_p()
        self("cuStreamCreate", byref(stream), 1)
        return stream


def pages(bytes):
    at = libc.mmap(None, bytes, 3, 0x22, -1, 0)  # private and anonymous, to read and to write
    if at in (None, c_void_p(-1).value):
        raise SystemExit(f"mmap of {bytes} bytes: error {ctypes.get_errno()}")
    libc.madvise(at, bytes, 14)  # large pages
    return at


def in_threads(count, run):
    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]


# Probes: each sends its samples (begin, seconds) when it is told to stop.


def echo(from_, to):
    while os.write(to, os.read(from_, 1) or sys.exit()):
        pass


def probe_host(stop, results):
    there, back = os.pipe(), os.pipe()
    fork.Process(target=echo, args=(there[0], back[1]), daemon=True).start()
    samples = []
    while not stop.is_set():
        begin = time.monotonic()
        os.write(there[1], b"x")
        os.read(back[0], 1)
        samples.append((begin, time.monotonic() - begin))
        time.sleep(0.0005)
    results.send({"host": samples})


def probe_gpu(stop, results):
    driver = Driver()
    at, to, stream, module, add = driver.device_memory(4096), driver.pinned(4096), driver.stream(), c_void_p(), c_void_p()
    driver("cuModuleLoadData", byref(module), KERNEL)
    driver("cuModuleGetFunction", byref(add), module, b"add")
    arguments = (c_void_p * 1)(ctypes.addressof(at))
    kernels, copies = [], []
    while not stop.is_set():
        begin = time.monotonic()
        driver("cuLaunchKernel", add, 1, 1, 1, 1, 1, 1, 0, stream, arguments, None)
        driver("cuStreamSynchronize", stream)
        between = time.monotonic()
        driver("cuMemcpyDtoHAsync_v2", to, at, c_size_t(4), stream)
        driver("cuStreamSynchronize", stream)
        kernels.append((begin, between - begin))
        copies.append((between, time.monotonic() - between))
        time.sleep(0.0005)
    results.send({"kernel": kernels, "copy": copies})


# Parts of moves: each prepares, calls `begin`, works until `stop`, and returns what it did in words.


def spin(begin, stop):
    begin()
    while not stop.is_set():
        sum(range(20000))
    return ""


def touch(begin, stop, gib, again):
    count = min(8, os.cpu_count() or 1)
    bytes = gib * 1024 * MIB // count
    if again:
        in_threads(count, lambda _: write_pages(bytes))
    begin()
    start = time.monotonic()
    in_threads(count, lambda _: write_pages(bytes))
    return f"{gib} GiB, {bytes * count / (time.monotonic() - start) / 1e9:.1f} GB/s with {count} threads"


def write_pages(bytes):
    at = pages(bytes)
    for byte in range(0, bytes, CHUNK):
        libc.memset(at + byte, 1, min(CHUNK, bytes - byte))
    libc.munmap(at, bytes)


def memcpy(begin, stop, nice, is_idle=False):
    os.nice(nice)
    if is_idle:
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    count, bytes = 8, 256 * MIB
    from_, to = [pages(bytes) for _ in range(count)], [pages(CHUNK) for _ in range(count)]
    in_threads(count, lambda number: libc.memset(from_[number], 1, bytes))
    done = [0] * count
    begin()
    start = time.monotonic()

    def run(number):
        for byte in itertools.cycle(range(0, bytes, CHUNK)):
            libc.memcpy(to[number], from_[number] + byte, CHUNK)
            done[number] += CHUNK
            if stop.is_set():
                return

    in_threads(count, run)
    return f"{sum(done) / (time.monotonic() - start) / 1e9:.1f} GB/s"


def dma(begin, stop, is_out, count):
    driver = Driver()
    host, device, streams = driver.pinned(count * CHUNK), driver.device_memory(count * CHUNK), [driver.stream() for _ in range(8)]
    events = [c_void_p() for _ in range(count)]
    [driver("cuEventCreate", byref(event), SLEEPING) for event in events]
    begin()
    start, chunks = time.monotonic(), 0
    while not stop.is_set():
        slot = chunks % count
        driver("cuEventSynchronize", events[slot])
        stream, there, here = streams[slot % 8], c_uint64(device.value + slot * CHUNK), c_void_p(host.value + slot * CHUNK)
        if is_out:
            driver("cuMemcpyDtoHAsync_v2", here, there, c_size_t(CHUNK), stream)
        else:
            driver("cuMemcpyHtoDAsync_v2", there, here, c_size_t(CHUNK), stream)
        driver("cuEventRecord", events[slot], stream)
        chunks += 1
    return f"{'out' if is_out else 'in'} {chunks * CHUNK / (time.monotonic() - start) / 1e9:.1f} GB/s"


class Properties(ctypes.Structure):
    _fields_ = [("kind", c_uint), ("handles", c_uint), ("location", c_uint), ("ordinal", c_int), ("rest", c_uint64 * 2)]


class Access(ctypes.Structure):
    _fields_ = [("location", c_uint), ("ordinal", c_int), ("flags", c_uint)]


def pieces(begin, stop):
    driver, at, count = Driver(), c_uint64(), 0
    properties, access = Properties(1, 0, 1, 0), Access(1, 0, 3)
    driver("cuMemAddressReserve", byref(at), c_size_t(PIECE), c_size_t(0), c_uint64(0), c_uint64(0))
    begin()
    start = time.monotonic()
    while not stop.is_set():
        handle = c_uint64()
        driver("cuMemCreate", byref(handle), c_size_t(PIECE), byref(properties), c_uint64(0))
        driver("cuMemMap", at, c_size_t(PIECE), c_size_t(0), handle, c_uint64(0))
        driver("cuMemSetAccess", at, c_size_t(PIECE), byref(access), c_size_t(1))
        driver("cuMemUnmap", at, c_size_t(PIECE))
        driver("cuMemRelease", handle)
        count += 1
    return f"{count}, {(time.monotonic() - start) / max(count, 1) * 1e3:.2f} ms each"


def pin(begin, stop):
    driver, count = Driver(), 0
    begin()
    start = time.monotonic()
    while not stop.is_set():
        driver("cuMemFreeHost", driver.pinned(8 * MIB))
        count += 1
    return f"{count} of 8 MiB, {(time.monotonic() - start) / max(count, 1) * 1e3:.2f} ms each"


def info(begin, stop):
    driver, free, total, count = Driver(), c_size_t(), c_size_t(), 0
    begin()
    while not stop.is_set():
        driver("cuMemGetInfo_v2", byref(free), byref(total))
        count += 1
        time.sleep(0.001)
    return f"{count} readings"


def helper(begin, stop):
    begin()
    start, count = time.monotonic(), 0
    while not stop.is_set():
        subprocess.run([sys.executable, "-c", "import ctypes; ctypes.CDLL('libcuda.so.1').cuInit(0)"], check=True)
        count += 1
    return f"{count} processes, {(time.monotonic() - start) / max(count, 1):.3f} s each"


def hold(ready):
    driver = Driver()
    driver.device_memory(64 * MIB)
    ready.set()
    while True:
        time.sleep(60)


def checkpoint(begin, stop, cycles):
    ready = fork.Event()
    held = fork.Process(target=hold, args=(ready,), daemon=True)
    held.start()
    if not ready.wait(60):
        raise SystemExit("checkpoint: no process with a context")
    driver, pid, steps = Driver(has_context=False), c_int(held.pid), [0.0] * 4
    begin()
    count = 0
    try:
        while count < cycles and not stop.is_set():
            for step, name in enumerate(("Lock", "Checkpoint", "Restore", "Unlock")):
                start, arguments = time.monotonic(), (c_uint * 16)(10_000 if name == "Lock" else 0)
                driver(f"cuCheckpointProcess{name}", pid, arguments)
                steps[step] += time.monotonic() - start
            count += 1
    finally:
        held.kill()
    return f"{count} cycles, lock, checkpoint, restore, unlock {', '.join(f'{step / max(count, 1):.3f}' for step in steps)} s"


def parts(options):
    """Processes of each part: functions with their arguments."""
    processors = os.cpu_count() or 1
    return {
        "touch": [(touch, options.gib, False)],
        "touch-again": [(touch, options.gib, True)],
        "nothing": [],
        "spin": [(spin,)] * processors,
        "spin-twice": [(spin,)] * (2 * processors),
        "memcpy": [(memcpy, 0)] * 2,
        "memcpy-nice": [(memcpy, 5)] * 2,
        "memcpy-idle": [(memcpy, 0, True)] * 2,
        "dma": [(dma, True, 16), (dma, False, 16)],
        "dma-few": [(dma, True, 2), (dma, False, 2)],
        "pieces": [(pieces,)] * 2,
        "pin": [(pin,)] * 2,
        "info": [(info,)],
        "helper": [(helper,)],
        "checkpoint": [(checkpoint, options.cycles)],
    }


def work(function, arguments, stop, results):
    begin = lambda: (results.send("ready"), results.recv())
    results.send(function(begin, stop, *arguments))


def measure(processes, seconds):
    """Begin and end of a part, and what it did."""
    stop, running = fork.Event(), []
    for function, *arguments in processes:
        own, its = fork.Pipe()
        process = fork.Process(target=work, args=(function, arguments, stop, its))
        process.start()
        its.close()
        running.append((process, own))
    try:
        [own.recv() for _, own in running]
        start = time.monotonic()
        [own.send("go") for _, own in running]
        is_bounded = any(function in (touch, checkpoint) for function, *_ in processes)
        if is_bounded:
            done = [own.recv() for _, own in running]
        else:
            time.sleep(seconds)
            end = time.monotonic()
            stop.set()
            return start, end, [own.recv() for _, own in running]
        return start, time.monotonic(), done
    except (EOFError, OSError):
        now = time.monotonic()
        return now, now, ["ended early"]
    finally:
        stop.set()
        for process, _ in running:
            process.join(60)
            process.kill()


def cell(samples, start, end):
    times = sorted(took * 1e3 for begin, took in samples if begin < end and begin + took > start)
    if not times:
        return "–"
    return f"{times[len(times) // 2]:.2f} / {times[min(len(times) - 1, int(0.99 * len(times)))]:.2f} / {times[-1]:.1f}"


def main():
    say = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    say.add_argument("--seconds", type=float, default=3, help="of each part without an end of its own")
    say.add_argument("--gib", type=int, default=64, help="new host memory")
    say.add_argument("--cycles", type=int, default=8)
    say.add_argument("parts", nargs="*", metavar="PART")
    options = say.parse_args()
    all = parts(options)
    unknown = [name for name in options.parts if name not in all]
    if unknown:
        sys.exit(f"no part {unknown[0]} (have: {', '.join(all)})")
    stop, probes = fork.Event(), []
    for probe in (probe_host, probe_gpu):
        own, its = fork.Pipe()
        process = fork.Process(target=probe, args=(stop, its))
        process.start()
        its.close()
        probes.append((process, own))
    time.sleep(3)  # contexts of the probes
    windows = [(name, *measure(all[name], options.seconds)) for name in options.parts or all]
    stop.set()
    samples = {}
    for process, own in probes:
        try:
            samples.update(own.recv())
        except EOFError:
            print("a probe ended early")
        process.join()
    print("| part | host, p50 / p99 / longest ms | kernel | copy | done |")
    print("|---|--:|--:|--:|---|")
    for name, start, end, done in windows:
        cells = [cell(samples.get(which, []), start, end) for which in ("host", "kernel", "copy")]
        print(f"| {name} | {' | '.join(cells)} | {'; '.join(one for one in done if one)} |")


main()
