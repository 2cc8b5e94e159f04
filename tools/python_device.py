#!/usr/bin/env python3
"""Arrays that stay on a GPU, from Python: python tools/python_device.py [DEVICE [MODEL [CALLS]]]

Compares each way of a request with the one through the host, says what a call costs over the request's own time (submission to
end, as the library measures it), alone and next to four best-effort jobs, and checks that producers are waited for, that arrays
which don't fit are refused, and that 10,000 calls keep no memory. Arrays come from PyTorch and CuPy if they are installed, and
from the driver itself by ctypes. On the CPU device they are NumPy's. Ends with 1 if a check fails.
"""

import ctypes
import gc
import statistics
import sys
import threading
import time

import numpy as np
import reef

failed = []


def check(what, is_right, more=""):
    print(f"{'ok  ' if is_right else 'FAIL'} {what} {more}", flush=True)
    if not is_right:
        failed.append(what)


class Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", ctypes.c_int32 * 2),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("byte_offset", ctypes.c_uint64),
    ]


DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Managed(ctypes.Structure):
    _fields_ = [("tensor", Tensor), ("context", ctypes.c_void_p), ("deleter", DELETER)]


HOST_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Driver:
    """The CUDA driver, on the primary context of one device."""

    def __init__(self, ordinal):
        self.cuda, self.ordinal = ctypes.CDLL("libcuda.so.1"), ordinal
        self.context = ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), ordinal)
        self.bind()

    def bind(self):
        self.call("cuCtxSetCurrent", self.context)

    def call(self, name, *args):
        code = getattr(self.cuda, name)(*args)
        if code != 0:
            raise RuntimeError(f"{name}: {code}")

    def stream(self):
        stream = ctypes.c_void_p()
        self.call("cuStreamCreate", ctypes.byref(stream), 1)  # CU_STREAM_NON_BLOCKING
        return stream

    def wait(self, stream):
        self.call("cuStreamSynchronize", stream)

    def free_bytes(self):
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self.call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        return free.value


class Array:
    """Memory of the device that the driver has allocated, whose work is in one stream."""

    def __init__(self, driver, values, stream=None):
        self.driver, self.shape, self.bytes = driver, values.shape, values.nbytes
        self.stream = stream or driver.stream()
        self.data, self.event = ctypes.c_uint64(), ctypes.c_void_p()
        driver.call("cuMemAlloc_v2", ctypes.byref(self.data), ctypes.c_size_t(self.bytes))
        driver.call("cuEventCreate", ctypes.byref(self.event), 2)  # without times
        self.fill(values)
        driver.wait(self.stream)
        self.deleted, self.open = 0, {}
        self.delete = DELETER(self.release)

    def fill(self, values):
        data = np.ascontiguousarray(values).ctypes.data
        size = ctypes.c_size_t(self.bytes)
        self.driver.call("cuMemcpyHtoDAsync_v2", self.data, ctypes.c_void_p(data), size, self.stream)

    def fill_later(self, other, seconds):
        """Has the stream wait for so long, and then copy another array."""
        self.function = HOST_FUNCTION(lambda _: time.sleep(seconds))
        self.driver.call("cuLaunchHostFunc", self.stream, self.function, None)
        size = ctypes.c_size_t(self.bytes)
        self.driver.call("cuMemcpyDtoDAsync_v2", self.data, other.data, size, self.stream)

    def release(self, managed):
        self.deleted += 1
        self.open.pop(managed, None)

    def __dlpack_device__(self):
        return (2, self.driver.ordinal)

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        if stream not in (None, -1):
            self.driver.bind()
            self.driver.call("cuEventRecord", self.event, self.stream)
            self.driver.call("cuStreamWaitEvent", ctypes.c_void_p(stream), self.event, 0)
        sizes = (ctypes.c_int64 * len(self.shape))(*self.shape)
        device = (ctypes.c_int32 * 2)(2, self.driver.ordinal)
        shape = ctypes.addressof(sizes)
        tensor = Tensor(self.data.value, device, len(self.shape), 2, 32, 1, shape, None, 0)
        managed = Managed(tensor, None, self.delete)
        self.open[ctypes.addressof(managed)] = (managed, sizes)
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return new(ctypes.addressof(managed), b"dltensor", None)


def numbers(output):
    """An output of any kind, for NumPy."""
    if isinstance(output, (np.ndarray, reef.Array)):
        return np.asarray(output)
    return output.get() if hasattr(output, "get") else output.cpu().numpy()


def middle(times):
    return f"{statistics.median(times):7.1f} / {statistics.quantiles(times, n=100)[98]:7.1f}"


def cost(rt, name, net_or_slot, args, out, expected, count):
    """Prints medians and 99th percentiles of a call and of the request's own time, in microseconds."""
    whole, own, right = [], [], 0
    for _ in range(20):
        rt.run(net_or_slot, *args, out=out)
    for _ in range(count):
        begin = time.perf_counter()
        output = rt.run(net_or_slot, *args, out=out)
        whole.append(1e6 * (time.perf_counter() - begin))
        right += np.array_equal(numbers(output), expected)
        future = rt.submit(net_or_slot, *args, out=out)
        future.result()
        own.append(1e6 * future.timing.total)
    over = statistics.median(whole) - statistics.median(own)
    print(f"     {name:44} run {middle(whole)}  own {middle(own)}  over {over:6.1f}", flush=True)
    return right == count


def resident():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * 4096


def main():
    name = sys.argv[1] if len(sys.argv) > 1 else "cuda:0"
    model = sys.argv[2] if len(sys.argv) > 2 else "resnet50"
    calls = int(sys.argv[3]) if len(sys.argv) > 3 else 10_000
    count = min(500, calls)
    is_gpu = not name.startswith("cpu")
    device = reef.open(name)
    net = device.load(model, batch=1, instances=16, **({} if is_gpu else {"input_size": 32}))
    shape = net.inputs[0].shape
    xs = [np.random.default_rng(seed).random(shape, dtype=np.float32) for seed in range(4)]
    print(device, net.name, shape, flush=True)

    driver = Driver(int(name.split(":")[1].split("?")[0])) if is_gpu else None
    makers = {"driver": lambda x: Array(driver, x)} if is_gpu else {"numpy": lambda x: x}
    try:
        import torch

        place = f"cuda:{driver.ordinal}" if is_gpu else "cpu"
        torch.zeros(1, device=place)
        makers["torch"] = lambda x: torch.from_numpy(x).to(place)
    except Exception as error:
        print(f"     no torch: {error}")
        torch = None
    try:
        import cupy

        if is_gpu:
            makers["cupy"] = cupy.asarray
    except Exception as error:
        print(f"     no cupy: {error}")

    rt = device.real_time()
    be = device.best_effort()
    expected = [rt.run(net, x) for x in xs]

    # Each way gives the output of the way through the host.
    slot, host_slot = net.slot(), net.slot("host")
    for kind, make in makers.items():
        arrays = [make(x) for x in xs]
        for what, run in [
            ("real-time, outputs where the inputs are", lambda a: rt.run(net, a)),
            ("real-time, outputs on the host", lambda a: rt.run(net, a, out="host")),
            ("real-time, outputs on the device", lambda a: rt.run(net, a, out="device")),
            ("best-effort", lambda a: be.run(net, a)),
            ("slot", lambda a: rt.run(slot, a)),
        ]:
            right = all(np.array_equal(numbers(run(a)), y) for a, y in zip(arrays, expected))
            check(f"{kind}: {what}", right)
        kept = [rt.run(net, a, out="device") for a in arrays]
        for _ in range(50):
            rt.run(net, arrays[3], out="device")
        check(f"{kind}: outputs that are kept stay", all(map(np.array_equal, map(numbers, kept), expected)))
        if kind == "driver":
            check("driver: deleter called once for each capsule", all(not a.open and a.deleted for a in arrays))
    check("numpy in, device out", all(np.array_equal(numbers(rt.run(net, x, out="device")), y) for x, y in zip(xs, expected)))
    for x, y in zip(xs, expected):
        np.copyto(host_slot.inputs[0].numpy(), x)
        check("slot on the host", np.array_equal(numbers(rt.run(host_slot)), y))
    if torch is not None:
        filled = torch.from_dlpack(slot.inputs[0])
        result = torch.from_dlpack(slot.outputs[0])
        for x, y in zip(xs, expected):
            filled.copy_(makers["torch"](x))
            rt.run(slot, filled)
            check("torch: slot filled in place", np.array_equal(numbers(result), y))

    # A producer that is still running is waited for.
    if is_gpu:
        source, late = Array(driver, xs[1]), Array(driver, xs[0])
        for what, run in [("real-time", rt.run), ("best-effort", be.run)]:
            late.fill(xs[0])
            driver.wait(late.stream)
            late.fill_later(source, 0.2)
            begin = time.perf_counter()
            output = run(net, late)
            waited = time.perf_counter() - begin
            right = np.array_equal(numbers(output), expected[1])
            check(f"driver: {what} request waits for a side stream", right and waited > 0.15, f"{waited:.3f} s")
        late.fill(xs[0])
        driver.wait(late.stream)
        late.fill_later(source, 0.5)
        begin = time.perf_counter()
        other = threading.Thread(target=lambda: run_in_turn(rt, net, xs[2], expected[2], begin))
        other.start()
        rt.run(net, late)
        other.join()
    if is_gpu and torch is not None:
        stream = torch.cuda.Stream()
        data, source = torch.from_numpy(xs[0]).cuda(), torch.from_numpy(xs[2]).cuda()
        torch.cuda.synchronize()
        with torch.cuda.stream(stream):
            torch.cuda._sleep(400_000_000)
            data.copy_(source)
            output = rt.run(net, data)
        check("torch: a long kernel on a side stream", np.array_equal(numbers(output), expected[2]))
        torch.cuda._sleep(400_000_000)
        filled.copy_(source)
        check("torch: default stream before a slot", np.array_equal(numbers(rt.run(slot)), expected[2]))

    # What doesn't fit is refused.
    for kind, make in makers.items():
        turned = getattr(make(xs[0]), "swapaxes", lambda a, b: None)(2, 3)
        for what, array in [("another shape", make(xs[0][:, :1])), ("other strides", turned)]:
            if array is None or (what == "other strides" and not is_gpu):
                continue
            try:
                rt.run(net, array)
                check(f"{kind}: {what} is refused", False)
            except reef.InvalidError as error:
                check(f"{kind}: {what} is refused", True, f"({error})")
    if is_gpu:
        elsewhere = Array(driver, xs[0])
        elsewhere.__class__ = type("Elsewhere", (Array,), {"__dlpack_device__": lambda self: (2, 7)})
        try:
            rt.run(net, elsewhere)
            check("another GPU is refused", False)
        except reef.InvalidError as error:
            check("another GPU is refused", True, f"({error})")

    # What a call costs.
    print(f"     medians / 99th percentiles of {count} in microseconds; over: difference of medians")
    own = net.slot()
    rt.run(own, xs[0])
    for jobs in (0, 4):
        stop = threading.Event()
        work = [threading.Thread(target=keep_busy, args=(device, net, xs[1], expected[1], stop)) for _ in range(jobs)]
        [thread.start() for thread in work]
        print(f"     next to {jobs} best-effort jobs; {device.stats()}")
        right = cost(rt, "numpy in, numpy out", net, (xs[0],), None, expected[0], count)
        right &= cost(rt, "slot, nothing is copied", own, (), None, expected[0], count)
        right &= cost(rt, "reef.Array in and out", net, (own.inputs[0],), "device", expected[0], count)
        for kind, make in makers.items():
            array = make(xs[0])
            right &= cost(rt, f"{kind} in, reef.Array out", net, (array,), "device", expected[0], count)
        if torch is not None:
            filled = torch.from_dlpack(own.inputs[0])
            right &= cost(rt, "torch: slot, after its tensor", own, (filled,), None, expected[0], count)
        check(f"outputs next to {jobs} jobs", right)
        stop.set()
        [thread.join() for thread in work]

    # No memory is kept.
    for kind, make in makers.items():
        array = make(xs[0])
        for _ in range(200):
            rt.run(net, array, out="device")
        gc.collect()
        free, before = driver.free_bytes() if is_gpu else 0, resident()
        for _ in range(calls):
            rt.run(net, array, out="device")
        gc.collect()
        lost, grown = free - driver.free_bytes() if is_gpu else 0, resident() - before
        check(f"{kind}: {calls} calls keep no memory", lost < 8 << 20 and grown < 8 << 20, f"({lost} B of the device, {grown} B of the host)")
    rt.close()
    be.close()
    device.close()
    print("failed:", failed or "nothing")
    sys.exit(1 if failed else 0)


def run_in_turn(rt, net, x, expected, begin):
    """A request of another thread needn't wait for the first one's producer."""
    time.sleep(0.1)
    right = np.array_equal(rt.run(net, x), expected)
    took = time.perf_counter() - begin
    check("another thread's request passes one whose producer runs", right and took < 0.4, f"{took:.3f} s")


def keep_busy(device, net, x, expected, stop):
    with device.best_effort() as be:
        jobs, right, all_ = [], 0, 0
        while not stop.is_set() or jobs:
            while len(jobs) < 2 and not stop.is_set():
                try:
                    jobs.append(be.submit(net, x))
                except reef.BusyError:
                    break
            if jobs:
                right += np.array_equal(jobs.pop(0).result(), expected)
                all_ += 1
        check(f"best-effort job: {right} of {all_} outputs", right == all_ > 0)


main()
