#!/usr/bin/env python3
"""Mixed load on one daemon: right requests whose answers are checked, next to clients that keep slots and memory.

    tools/hostile_load.py [--reef FILE] [--seconds N] [--attackers NAME,...] [--list]

Starts the daemon itself, on loopback and Unix sockets, with one small network on the CPU. Each kind of attacker is a
process of its own; as root, they run as two other users. Prints a line each 10 s: resident memory of the daemon,
and right, wrong, refused and lost answers. Ends by itself. Exit codes: 0 if each right request got its right answer,
no client waited for 5 s, and the memory is flat; 1 otherwise.

A machine with too few processors fails too. The last lines say for how long threads of the daemon waited for a
processor: requests that are late while they waited little were kept out by the load. `--attackers none` is the
measure of the machine alone.

Memory is flat if its median in the last quarter of the time is at most 10 % and 16 MiB above that of the second quarter.
Needs Python 3.8 and a built `reef`; no other package.
"""
import argparse
import collections
import encodings.idna  # noqa: F401 (another user may not be able to read Python's files)
import http.client
import itertools
import json
import multiprocessing
import os
import random
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time

OTHER_USERS = [65534, 65533]
TOKENS = {name: name * 32 for name in "ab"}
VALUES = 3 * 32 * 32
OUTPUTS = 1000
GRPC = "/inference.GRPCInferenceService/"
MAX_GAP = 5  # seconds between two answers to one client


def frame(kind, flags, stream, body=b""):
    """A frame of HTTP/2."""
    return struct.pack(">I", len(body))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + body


def literal(name, value):
    """A header without an index, of at most 16,000 bytes."""
    def number(length):
        if length < 127:
            return bytes([length])
        rest = length - 127
        return b"\x7f" + bytes([rest & 127 | 128, rest >> 7])
    return b"\x10" + number(len(name)) + name + number(len(value)) + value


def call(path, *more):
    """The headers of a call of gRPC."""
    known = [(b":method", b"POST"), (b":scheme", b"http"), (b":authority", b"localhost"),
             (b":path", path.encode()), (b"content-type", b"application/grpc"), (b"te", b"trailers")]
    return b"".join(literal(*pair) for pair in known + list(more))


def preface(window=None):
    """The beginning of a connection of HTTP/2, with the window for answers."""
    settings = b"" if window is None else struct.pack(">HI", 4, window)
    return b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, settings)


class Target:
    """Where the daemon listens."""

    def __init__(self, folder, grpc, http_port):
        self.folder, self.grpc, self.http = folder, grpc, http_port

    def tcp(self, port):
        return socket.create_connection(("127.0.0.1", port), timeout=3)

    def unix(self, name, kind=socket.SOCK_STREAM):
        sock = socket.socket(socket.AF_UNIX, kind)
        sock.settimeout(3)
        sock.connect(f"{self.folder}/{name}.sock")
        return sock


def keep(connect, say, most, pause=0.02):
    """Opens connections, says something on each, and keeps the last ones."""
    held = []
    for number in itertools.count():
        try:
            sock = connect(number)
            say(sock, number)
            held.append(sock)
        except OSError:
            pass
        if len(held) > most:
            held.pop(0).close()
        time.sleep(pause)


def answering_pings(sock, first):
    """Keeps a connection of HTTP/2 alive in a thread, until the daemon closes it."""
    sock.sendall(first)

    def serve():
        data = b""
        try:
            while True:
                part = sock.recv(65536)
                if not part:
                    return
                data += part
                while len(data) >= 9 and len(data) >= 9 + int.from_bytes(data[:3], "big"):
                    end = 9 + int.from_bytes(data[:3], "big")
                    kind, flags, body, data = data[3], data[4], data[9:end], data[end:]
                    if kind in (4, 6) and not flags & 1:
                        sock.sendall(frame(kind, 1, 0, body if kind == 6 else b""))
        except OSError:
            pass
    sock.settimeout(60)
    threading.Thread(target=serve, daemon=True).start()


def idle(target):
    """Connections that say nothing, or rest after a request."""
    request = b"GET /v2 HTTP/1.1\r\nhost: localhost\r\n\r\n"
    def connect(n):
        return target.unix("http") if n % 3 else target.tcp(target.http)
    keep(connect, lambda sock, n: n % 2 and sock.sendall(request), 300)


def half_requests(target):
    """Heads and bodies without an end."""
    head = b"POST /v2/models/tiny/infer HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100000\r\n"
    def connect(n):
        return target.unix("http") if n % 2 else target.tcp(target.http)
    keep(connect, lambda sock, n: sock.sendall(head + (b"\r\n{" if n % 3 else b"")), 300)


def calls_without_bodies(target):
    """Calls of gRPC that are headers alone, many on each connection."""
    headers = call(GRPC + "ModelInfer", *((b"x-%d" % k, b"v" * 3000) for k in range(4)))
    first = preface() + b"".join(frame(1, 4, stream, headers) for stream in range(1, 257, 2))
    def connect(n):
        return target.unix("grpc") if n % 2 else target.tcp(target.grpc)
    keep(connect, lambda sock, _: sock.sendall(first), 100, 1)


def no_window(target):
    """Calls whose answers may not be sent."""
    first = preface(0) + frame(1, 4, 1, call(GRPC + "ServerMetadata")) + frame(0, 1, 1, bytes(5))
    def connect(n):
        return target.unix("grpc") if n % 2 else target.tcp(target.grpc)
    keep(connect, lambda sock, _: answering_pings(sock, first), 200, 0.05)


def idle_streams(target):
    """Streams with one bad request each."""
    stream = frame(1, 4, 1, call(GRPC + "ModelStreamInfer")) + frame(0, 0, 1, b"\0\0\0\0\3\x0a\1m")
    keep(lambda n: target.unix("grpc"), lambda sock, _: answering_pings(sock, preface() + stream), 200, 0.05)


def unread(target):
    """Requests whose answers are not read."""
    def flood(sock, _):
        sock.settimeout(0.2)
        sock.sendall(b"GET /v2 HTTP/1.1\r\nhost: localhost\r\n\r\n" * 1000)
    keep(lambda n: target.unix("http") if n % 2 else target.tcp(target.http), flood, 50, 2)


def connects(target):
    """Some 200 connections a second without a token."""
    while True:
        try:
            target.tcp(target.http).close()
        except OSError:
            pass
        time.sleep(0.004)


def silent_programs(target):
    """Connections of programs that never join, and of local clients that never say hello."""
    def connect(n):
        return target.unix("guests", socket.SOCK_SEQPACKET) if n % 2 else target.unix("local")
    keep(connect, lambda sock, n: None, 200)


def regions(target):
    """One block of shared memory under as many names as there may be, with a token."""
    key = f"reef-hostile-{os.getpid()}"
    with open(f"/dev/shm/{key}", "wb") as memory:
        memory.write(bytes(64))
    body = json.dumps({"key": key, "offset": 0, "byte_size": 64})
    token = {"authorization": "Bearer " + TOKENS["b"], "content-type": "application/json"}
    try:
        for number in itertools.count():
            try:
                client = http.client.HTTPConnection("127.0.0.1", target.http, timeout=10)
                for name in range(300):
                    path = f"/v2/systemsharedmemory/region/r{number}-{name}/register"
                    client.request("POST", path, body, token)
                    client.getresponse().read()
                    time.sleep(0.01)
                client.close()
            except (OSError, http.client.HTTPException):
                time.sleep(0.1)
    finally:
        os.unlink(f"/dev/shm/{key}")


def noise(target):
    """Random bytes, unknown paths and wrong frames."""
    rng = random.Random(1)
    def say(sock, n):
        sock.sendall([rng.randbytes(rng.randrange(1, 4000)),
                      b"POST /nothing HTTP/1.1\r\nhost: localhost\r\ncontent-length: 50000\r\n\r\n" + bytes(50000),
                      preface() + rng.randbytes(200)][n % 3])
    def connect(n):
        return [target.unix("http"), target.tcp(target.http), target.tcp(target.grpc), target.unix("local")][n % 4]
    keep(connect, say, 30, 0.1)


ATTACKERS = [idle, half_requests, calls_without_bodies, no_window, idle_streams, unread, connects, silent_programs,
             regions, noise]


def attack(attacker, target, uid):
    """The process of an attacker."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    os.nice(19)  # what is tested is the division of slots and memory, not of processors
    if uid is not None:
        os.setgroups([])
        os.setgid(uid)
        os.setuid(uid)
    attacker(target)


class Right:
    """A client whose answers are checked: each input has one right output."""

    def __init__(self, name, connect, headers):
        self.name, self.connect, self.headers = name, connect, headers
        self.right = self.wrong = self.refused = self.lost = 0
        self.longest = 0.0
        self.reasons = collections.Counter()
        self.last = time.monotonic()

    def ask(self, client, values):
        head = json.dumps({
            "inputs": [{"name": "input", "datatype": "FP32", "shape": [1, 3, 32, 32],
                        "parameters": {"binary_data_size": 4 * VALUES}}],
            "outputs": [{"name": "logits", "parameters": {"binary_data": True}}]}).encode()
        headers = {"Inference-Header-Content-Length": str(len(head)), "content-type": "application/octet-stream"}
        client.request("POST", "/v2/models/tiny/infer", head + values, {**headers, **self.headers})
        answer = client.getresponse()
        body = answer.read()
        return answer.status, body[-4 * OUTPUTS:]

    def run(self, inputs, wanted, is_over):
        client, rng = None, random.Random(self.name)
        while not is_over.is_set():
            try:
                client = client or self.connect()
                which = rng.randrange(len(inputs))
                status, output = self.ask(client, inputs[which])
                if status != 200:
                    self.refused += 1
                    self.reasons[f"{status}"] += 1
                elif output == wanted[which]:
                    self.right += 1
                    self.note_gap()
                else:
                    self.wrong += 1
                if rng.random() < 0.1:  # comes anew
                    client.close()
                    client = None
            except (OSError, http.client.HTTPException) as error:
                self.lost += 1
                self.reasons[type(error).__name__] += 1
                client = client and client.close()
            is_over.wait(0.03)
        self.note_gap()

    def note_gap(self):
        now = time.monotonic()
        self.longest, self.last = max(self.longest, now - self.last), now

    def is_served(self):
        """Returns whether each request got its right answer, and none took long."""
        return self.right > 0 and self.wrong + self.refused + self.lost == 0 and self.longest < MAX_GAP


def free_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


def start(reef, folder):
    """Starts the daemon and waits until it listens."""
    os.chmod(folder, 0o755)
    model = f"{folder}/models/tiny/1"
    os.makedirs(model)
    with open(f"{folder}/models/tiny/model.toml", "w") as file:
        file.write('network = "resnet18"\nsize = 32\nseed = 1\n')
    with open(f"{folder}/reef.toml", "w") as config:
        for name, secret in TOKENS.items():
            with open(f"{folder}/{name}", "w", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
                file.write(secret)
            config.write(f'[rights."token {name}"]\ntoken_file = "{folder}/{name}"\n')
    target = Target(f"{folder}/s", free_port(), free_port())
    command = [reef, "serve", "--config", f"{folder}/reef.toml", "--socket-dir", target.folder, "--guests",
               "--device", "cpu:0?units=1", "--grpc", f"127.0.0.1:{target.grpc}", "--http", f"127.0.0.1:{target.http}",
               "--set", f'models.repository="{folder}/models"', "--set", 'models.load=["tiny"]',
               "--set", "listen.users=all"]
    # With the user's accounts it would charge programs of others, which run within limits, with their contexts.
    environment = {**os.environ, "REEF_ACCOUNTS": f"{folder}/accounts"}
    daemon = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=open(f"{folder}/log", "w"))
    while True:
        try:
            target.unix("http").close()
            return daemon, target
        except OSError:
            if daemon.poll() is not None:
                with open(f"{folder}/log") as log:
                    sys.exit(f"the daemon ended: {log.read()[-2000:]}")
            time.sleep(0.1)


def resident(pid):
    with open(f"/proc/{pid}/status") as status:
        return int(next(line for line in status if line.startswith("VmRSS")).split()[1]) / 1024


def waited(pid):
    """Returns the seconds that threads of a process waited for a processor, together."""
    total = 0
    for thread in os.listdir(f"/proc/{pid}/task"):
        try:
            with open(f"/proc/{pid}/task/{thread}/schedstat") as stat:
                total += int(stat.read().split()[1])
        except OSError:
            pass  # it has ended
    return total / 1e9


def right_clients(target):
    def unix():
        client = http.client.HTTPConnection("localhost", timeout=30)
        client.sock = target.unix("http")
        client.sock.settimeout(30)
        return client
    def tcp():
        return http.client.HTTPConnection("127.0.0.1", target.http, timeout=30)
    return [Right("owner", unix, {}), Right("token a", tcp, {"authorization": "Bearer " + TOKENS["a"]})]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--reef", default="target/release/reef")
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--attackers", help="names, separated by commas, or none, to compare with; default: all")
    parser.add_argument("--list", action="store_true", help="print the attackers and end")
    options = parser.parse_args()
    if options.list:
        return print("\n".join(f"{one.__name__}: {one.__doc__}" for one in ATTACKERS))
    names = options.attackers.split(",") if options.attackers else [one.__name__ for one in ATTACKERS]
    chosen = [one for one in ATTACKERS if one.__name__ in names]
    if names != ["none"] and len(chosen) != len(set(names)):
        parser.error(f"--attackers: unknown name in {options.attackers}; see --list")
    with tempfile.TemporaryDirectory() as folder:
        return load(os.path.abspath(options.reef), folder, chosen, options.seconds)


def load(reef, folder, chosen, seconds):
    daemon, target = start(reef, folder)
    attackers = []
    try:
        rng = random.Random(7)
        inputs = [struct.pack(f"<{VALUES}f", *(rng.random() for _ in range(VALUES))) for _ in range(4)]
        clients = right_clients(target)
        calm = clients[0].connect()
        wanted = [clients[0].ask(calm, values)[1] for values in inputs]
        calm.close()
        for number, attacker in enumerate(chosen):
            is_foreign = os.getuid() == 0 and attacker is not regions  # whose memory is the daemon's user's
            uid = OTHER_USERS[number % 2] if is_foreign else None
            attackers.append(multiprocessing.Process(target=attack, args=(attacker, target, uid), daemon=True))
            attackers[-1].start()
        is_over = threading.Event()
        threads = [threading.Thread(target=client.run, args=(inputs, wanted, is_over)) for client in clients]
        [thread.start() for thread in threads]
        memory = watch(daemon, clients, seconds)
        is_over.set()
        [thread.join() for thread in threads]
        ended = [f"{attacker.__name__} ({one.exitcode})" for attacker, one in zip(chosen, attackers) if not one.is_alive()]
        return verdict(daemon, clients, memory, ended)
    finally:
        for one in attackers:
            one.terminate()
            one.join()
        daemon.kill()
        daemon.wait()


def watch(daemon, clients, seconds):
    """Prints a line each 10 s, and returns the memory in MiB."""
    begin, memory = time.monotonic(), []
    while time.monotonic() - begin < seconds and daemon.poll() is None:
        time.sleep(min(10, max(0.1, seconds - (time.monotonic() - begin))))
        memory.append(resident(daemon.pid))
        counts = "; ".join(f"{c.name}: {c.right} right {c.wrong} wrong {c.refused} refused {c.lost} lost" for c in clients)
        print(f"{time.monotonic() - begin:6.0f} s  {memory[-1]:7.1f} MiB  {counts}", flush=True)
    return memory


def verdict(daemon, clients, memory, ended):
    quarter = max(1, len(memory) // 4)
    early, late = (statistics.median(part) for part in (memory[quarter:2 * quarter] or memory, memory[-quarter:]))
    for client in clients:
        print(f"{client.name}: {client.right} right, {client.wrong} wrong, longest time between answers {client.longest:.1f} s, "
              f"not served: {dict(client.reasons)}")
    print(f"memory: first {memory[0]:.1f}, second quarter {early:.1f}, last quarter {late:.1f}, most {max(memory):.1f} MiB; "
          f"attackers that ended: {', '.join(ended) or 'none'}")
    has_ended = daemon.poll() is not None
    if not has_ended:
        print(f"the daemon's threads waited for a processor for {waited(daemon.pid):.1f} s")
    is_flat = late <= early * 1.1 + 16
    passed = is_flat and all(client.is_served() for client in clients) and not has_ended and not ended
    print("holds" if passed else "DEFECT")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
