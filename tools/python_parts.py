#!/usr/bin/env python3
"""What a call from Python costs next to the library's own time: taskset -c 0 python tools/python_parts.py [DEVICE]

Runs a network of 256 numbers, so that little else counts, and prints in microseconds the least of 20 medians of 500 calls: the whole call,
and what it takes over the request's own time (submission to end). Then the parts that can be called alone. tools/python_cost.py and
tools/python_device.py measure whole calls of a real network.
On the CPU device one processor gives steady times: with more, they depend on where the device's threads run.
"""

import statistics
import sys
import time
import timeit

import numpy as np
import reef
from reef._device import RealTime

COUNT = 500
# y = Relu(x) of float32 (1, 256), as an ONNX file.
RELU = bytes.fromhex(
    "080812003a3d0a0c0a0178120179220452656c751201675a140a0178120f0a0d080112090a0208010a0308800262140a0179120f0a0d080112090a0208"
    "010a0308800242040a001011"
)


def over(name, rt, what, args, out=None):
    """Prints the call, and its difference to the request's own time: each the least of all rounds."""
    rounds = []
    for _ in range(20):
        whole, own = [], []
        for _ in range(COUNT):
            begin = time.perf_counter_ns()
            rt.run(what, *args, out=out)
            whole.append(time.perf_counter_ns() - begin)
        for _ in range(COUNT):
            future = rt.submit(what, *args, out=out)
            future.result()
            own.append(1e9 * future.timing.total)
        rounds.append((statistics.median(whole) / 1e3, statistics.median(own) / 1e3))
    whole, own = (min(times) for times in zip(*rounds))
    print(f"{whole:7.2f}  over {whole - own:6.2f}  {name}", flush=True)


def least(name, call):
    times = timeit.repeat(call, number=COUNT, repeat=60)
    print(f"{1e6 * min(times) / COUNT:7.2f}               {name}", flush=True)


class Nothing:
    """A client that does nothing."""

    def run(self, *args):
        return None


def main():
    device = reef.open(sys.argv[1] if len(sys.argv) > 1 else "cpu:0?units=1")
    net = device.load(RELU, instances=16)
    x = np.random.default_rng(0).standard_normal(net.inputs[0].shape).astype(np.float32)
    slot = net.slot()
    print(device, f"Python {sys.version.split()[0]}, NumPy {np.__version__}")
    with device.real_time() as rt:
        over("rt.run(net, x): NumPy in and out", rt, net, (x,))
        over("rt.run(net, x, out='device'): a reef.Array out", rt, net, (x,), "device")
        over("rt.run(slot): nothing is copied", rt, slot, ())
        over("rt.run(net, array): a reef.Array in and out", rt, net, (slot.inputs[0],), "device")
        try:
            import torch

            tensor = torch.from_numpy(x)
            over("rt.run(net, tensor): PyTorch in, NumPy out", rt, net, (tensor,), "host")
            least("… tensor.__dlpack__()", tensor.__dlpack__)
        except ImportError:
            print("         no torch")
        assert np.array_equal(rt.run(net, x).ravel(), np.maximum(x, 0).ravel()), "wrong output"
    nothing = RealTime(Nothing(), device)
    least("rt.run of a client that does nothing: the package's own Python", lambda: nothing.run(net, x))
    least("array.__dlpack__()", slot.inputs[0].__dlpack__)
    least("array.numpy()", slot.inputs[0].numpy)


main()
