"""Clients of KServe's protocol over HTTP with binary tensors, and the loads that they make."""

import json
import random
import socket
import threading
import time

import numpy as np

LENGTH = "inference-header-content-length"


class Client:
    """One connection that is kept."""

    def __init__(self, address):
        host, port = address.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), timeout=120)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.rest = b""

    def ask(self, request):
        """Sends a request; returns status, headers and body."""
        self.socket.sendall(request)
        while b"\r\n\r\n" not in self.rest:
            self.more()
        head, self.rest = self.rest.split(b"\r\n\r\n", 1)
        status, *lines = head.decode().split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in lines)
        while len(self.rest) < int(headers["content-length"]):
            self.more()
        body, self.rest = self.rest, b""
        return int(status.split()[1]), headers, body

    def more(self):
        got = self.socket.recv(1 << 20)
        if not got:
            raise ConnectionError("closed")
        self.rest += got


def metadata(address):
    """Name and shape of the model's input."""
    request = b"GET /v2/models/net HTTP/1.1\r\nhost: localhost\r\n\r\n"
    _, headers, body = Client(address).ask(request)
    length = int(headers.get(LENGTH, len(body)))
    tensor = json.loads(body[:length])["inputs"][0]
    return tensor["name"], [int(n) for n in tensor["shape"]]


def inference(address, priority):
    """A request for an inference: the same picture each time. 1 is real-time, to a server that knows it."""
    name, shape = metadata(address)
    data = np.random.default_rng(7).standard_normal(shape).astype("<f4").tobytes()
    size = {"binary_data_size": len(data)}
    tensor = {"name": name, "datatype": "FP32", "shape": shape, "parameters": size}
    said = {"priority": priority, "binary_data_output": True}
    head = json.dumps({"parameters": said, "inputs": [tensor]}).encode()
    lines = f"POST /v2/models/net/infer HTTP/1.1\r\nhost: localhost\r\n{LENGTH}: {len(head)}\r\n"
    return f"{lines}content-length: {len(head) + len(data)}\r\n\r\n".encode() + head + data


def output(address):
    """What the model gives for that picture."""
    status, headers, body = Client(address).ask(inference(address, 1))
    assert status == 200, body
    return np.frombuffer(body[int(headers[LENGTH]) :], "<f4")


def closed(address, seconds, clients, count, lost):
    """So many best-effort clients, each of which asks again when it is answered. Adds answers and failures."""
    request, end = inference(address, 2), time.monotonic() + seconds

    def go():
        client = Client(address)
        while time.monotonic() < end:
            answered = client.ask(request)[0] == 200
            which = count if answered else lost
            with which.get_lock():
                which.value += 1

    gather([threading.Thread(target=go) for _ in range(clients)])


def opened(address, seconds, rate, workers=32):
    """Real-time requests that arrive at random times, planned beforehand (Poisson), whatever became of those before.

    Returns seconds from each planned arrival to its answer, and how many failed. Where all workers wait for
    answers an arrival is sent late, and counts from when it was planned all the same.
    """
    request, dice = inference(address, 1), random.Random(11)
    planned, at = [], 0.0
    while (at := at + dice.expovariate(rate)) < seconds:
        planned.append(at)
    times, lost, arrivals = [], [], iter(planned)
    lock, begin = threading.Lock(), time.monotonic() + 0.2

    def go():
        client = Client(address)
        while True:
            with lock:
                due = next(arrivals, None)
            if due is None:
                return
            time.sleep(max(0.0, begin + due - time.monotonic()))
            answered = client.ask(request)[0] == 200
            (times if answered else lost).append(time.monotonic() - begin - due)

    gather([threading.Thread(target=go) for _ in range(workers)])
    return times, len(lost)


def gather(threads):
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
