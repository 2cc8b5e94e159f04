#!/usr/bin/env python3
"""What the package's own Python costs in a call: python tools/python_parts.py

Prints, in microseconds, the least of 60 means of 500 calls to a device that does nothing, so that neither the library nor a busy machine
counts. tools/python_cost.py measures whole calls.
"""

import timeit

import numpy as np
from reef import _network
from reef._device import RealTime
from reef._request import Future

COUNT = 500
PICTURE = np.zeros((1, 3, 224, 224), np.float32)
LOGITS = np.zeros(4000, np.uint8)


class Request:
    def wait(self, timeout):
        return (0.0, 0.0, 1.0)

    def cancel(self):
        return False


class Network:
    """A network that is never run."""

    name = "nothing"

    def inputs(self):
        return [("input", [1, 3, 224, 224], "float32")]

    def outputs(self):
        return [("logits", [1, 1000], "float32")]

    def instance(self):
        return self

    def write(self, index, data):
        pass

    def read(self, index):
        return LOGITS


class Client:
    def submit(self, instance, deadline):
        return Request()


def least(name, call):
    times = timeit.repeat(call, number=COUNT, repeat=60)
    print(f"{1e6 * min(times) / COUNT:7.2f}  {name}")


net, rt = _network.Network(Network(), 8), RealTime(Client())
least("rt.run", lambda: rt.run(net, PICTURE))
least("… of it: checks of the input", lambda: _network.arrays_of("nothing", net.inputs, (PICTURE,), {}))
least("… memory of a request, its future and its result", lambda: Future(net, net._take(), Request()).result())
