"""A model's process without the package: what it does depends on the identifier of a request."""

import json
import os
import socket
import struct
import sys
import time

daemon = socket.socket(fileno=0)


def exactly(length):
    data = b""
    while len(data) < length:
        more = daemon.recv(length - len(data))
        if not more:
            if "stubborn" in sys.argv:
                time.sleep(3600)
            sys.exit(0)
        data += more
    return data


def receive():
    header, tensors = struct.unpack("<IQ", exactly(12))
    return json.loads(exactly(header)), exactly(tensors)


def frame(header, data=b""):
    text = json.dumps(header).encode()
    return struct.pack("<IQ", len(text), len(data)) + text + data


def send(header, data=b""):
    daemon.sendall(frame(header, data))


def tensors(kind="FP32"):
    return {
        "inputs": [{"name": "x", "datatype": kind, "shape": [-1]}],
        "outputs": [{"name": "y", "datatype": kind, "shape": [-1]}],
    }


def leave_a_program():
    """Ends, and leaves one behind that has the socket, in a session of its own."""
    if os.fork() == 0:
        os.setsid()
        open("left", "w").close()
        exactly(1)  # until the end of the socket
    while not os.path.exists("left"):
        time.sleep(0.001)
    os._exit(7)


def answer(request, data, times=1):
    """In one piece: a second answer is there when the first one is."""
    shape = [len(data) // 4]
    output = {"name": "y", "datatype": "FP32", "shape": shape, "bytes": len(data)}
    header = {"type": "answer", "request": request["request"], "outputs": [output]}
    daemon.sendall(frame(header, data) * times)


if "stubborn" in sys.argv:
    import signal

    signal.signal(signal.SIGTERM, signal.SIG_IGN)
start, _ = receive()
if "leaves" in sys.argv:
    leave_a_program()
if "slow" in sys.argv:
    time.sleep(3600)
if "silent" in sys.argv:
    sys.exit(3)
assert start["device_memory"] or "device_memory" not in sys.argv, start
ready = {"type": "ready", "protocol": 2 if "newer" in sys.argv else 1, **tensors()}
ready |= {name: True for name in ["batches", "device_memory", "streams"] if name in sys.argv}
send(ready | ({"text": {}} if "text" in sys.argv else {}))
while True:
    request, data = receive()
    what = request.get("id", "")
    if request["type"] == "batch":
        batch = [receive() for _ in request["requests"]]
        assert [one["request"] for one, _ in batch] == request["requests"], batch
        ids = [one["id"] for one, _ in batch]
        if "until cancelled" in ids:
            open("begun", "w").close()
            cancel, _ = receive()
            cancelled = batch[ids.index("until cancelled")][0]["request"]
            assert cancel == {"type": "cancel", "request": cancelled}, cancel
        for one, data in reversed(batch):
            if one["id"] == "error":
                send({"type": "error", "request": one["request"], "error": "out of luck"})
            elif one["id"] == "crash":
                os._exit(7)
            else:
                answer(one, struct.pack("<f", len(batch)), times=2 if one["id"] == "twice" else 1)
    elif what == "hold":
        open("held", "w").close()
        while not os.path.exists("go"):
            time.sleep(0.001)
        answer(request, data)
    elif request["type"] == "cancel":
        print("unexpected cancel", flush=True)
    elif what == "pid":
        answer(request, struct.pack("<f", os.getpid()))
    elif what == "place":
        text = json.dumps([request["inputs"][0].get("device"), len(data)]).encode()
        answer(request, text + b" " * (-len(text) % 4))
    elif what == "crash":
        os._exit(7)
    elif what == "crash after":
        answer(request, data)
        os._exit(7)
    elif what == "garbage":
        daemon.sendall(b"Traceback (most recent call last):\n")
    elif what == "not json":
        daemon.sendall(struct.pack("<IQ", 5, 0) + b"hello")
    elif what == "huge":
        daemon.sendall(struct.pack("<IQ", 2, 1 << 62) + b"{}")
    elif what == "long header":
        daemon.sendall(struct.pack("<IQ", 1 << 31, 0))
    elif what == "half":
        daemon.sendall(struct.pack("<IQ", 100, 0) + b"{")
        os._exit(0)
    elif what == "close":
        daemon.close()
        time.sleep(3600)
    elif what == "fork":
        child = os.fork()
        if child == 0:
            time.sleep(3600)  # it has the socket and the output, too
        with open("child", "w") as file:
            file.write(str(child))
        os._exit(7)
    elif what == "leave":
        leave_a_program()
    elif what == "flood":
        line = "x" * 9999
        for _ in range(200):
            print(line)
        answer(request, data)
    elif what == "twice":
        answer(request, data, times=2)
    elif what == "other":
        answer({"request": request["request"] + 1}, data)
    elif what == "never":
        time.sleep(3600)
    elif what == "until cancelled":
        cancel, _ = receive()
        assert cancel == {"type": "cancel", "request": request["request"]}, cancel
        answer(request, data)
    elif what == "wrong shape":
        output = {"name": "y", "datatype": "FP32", "shape": [9], "bytes": len(data)}
        send({"type": "answer", "request": request["request"], "outputs": [output]}, data)
    elif what == "no output":
        send({"type": "answer", "request": request["request"], "outputs": []})
    elif what == "error":
        send({"type": "error", "request": request["request"], "error": "out of luck"})
    else:
        answer(request, data)
