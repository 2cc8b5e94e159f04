#!/usr/bin/env python3
"""Time of an inference of a program whose GPU is elsewhere, over emulated lines: each call waits, none waits, replayed.

    tools/remote/replay.py FOLDER [--driver FILE] [--rtt 0.1,1,5,30] [--bandwidth 100mbit] [--launches 57,300]
                           [--tinygrad WHEEL [--jit 1,2,0]] [--json FILE] [--seconds 500]

FOLDER has libreef_remote_cuda.so and reef-remote-worker, as cargo builds them. Needs neither Rust nor a network. The program
copies 602,112 bytes to the device, launches, and copies 4,000 bytes back. With --tinygrad, ResNet-50 with random weights on
tinygrad's CUDA backend too: with its graphs (JIT=1), with its list of launches (JIT=2), and without (JIT=0).

Columns: milliseconds of an inference (median), messages up and down, bytes up and down, and the floor: round trip, bytes of
input and output at the line's bandwidth, and the time on this machine.
"""

import argparse
import ctypes
import hashlib
import json
import os
import shutil
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time
import zipfile

INPUT, OUTPUT = 602_112, 4_000
MODES = {"strict": {"REEF_REMOTE_STRICT": "1"}, "pipelined": {"REEF_REMOTE_REPLAY": "0"}, "replay": {"REEF_REMOTE_REPLAY": "1"}}
# word = word * 31 + value, so that a lost, doubled or misplaced launch shows in the output.
PTX = b"""
.version 7.0
.target sm_70
.address_size 64
.visible .entry mix(.param .u64 to, .param .u64 value) {
.reg .b64 d<6>;
ld.param.u64 d1, [to]; ld.param.u64 d2, [value]; cvta.to.global.u64 d3, d1;
ld.global.u64 d4, [d3]; mad.lo.u64 d4, d4, 31, d2; st.global.u64 [d3], d4;
ret; }
"""


def main():
    if len(sys.argv) > 1 and sys.argv[1] == "--child":
        return child(json.loads(sys.argv[2]))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("--driver", help="library in the driver's place, for a machine without a GPU")
    parser.add_argument("--rtt", default="0.1,1,5,30", help="milliseconds; none: the line as it is")
    parser.add_argument("--bandwidth", default="100mbit")
    parser.add_argument("--launches", default="57,300")
    parser.add_argument("--tinygrad", help="wheel of tinygrad")
    parser.add_argument("--tinygrad-device", default="CUDA:PTX")
    parser.add_argument("--jit", default="1,2,0", help="of tinygrad")
    parser.add_argument("--json")
    parser.add_argument("--seconds", type=float, default=500)
    args = parser.parse_args()
    work = tempfile.mkdtemp(prefix="reef-replay-")
    try:
        code = run(args, work, time.monotonic() + args.seconds)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    sys.exit(code)


def run(args, work, end):
    folder = os.path.abspath(args.folder)
    there, here = os.path.join(work, "there"), os.path.join(work, "here")
    for place, library in ((there, os.path.join(folder, "libreef_remote_cuda.so")), (here, args.driver)):
        os.mkdir(place)
        for name in ("libcuda.so.1", "libcuda.so") if library else ():
            os.symlink(os.path.abspath(library), os.path.join(place, name))
    command = [os.path.join(folder, "reef-remote-worker"), "serve", f"unix:{work}/reef.sock"]
    command += ["--driver", os.path.abspath(args.driver)] if args.driver else []
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        address = server.stdout.readline().split()[-1]
        bench = Bench(work, there, here, address, args.bandwidth, end, bool(args.driver))
        programs = [{"launches": int(count)} for count in args.launches.split(",") if count]
        if args.tinygrad:
            with zipfile.ZipFile(args.tinygrad) as wheel:
                wheel.extractall(os.path.join(work, "tinygrad"))
            path = os.path.join(work, "tinygrad")
            programs += [{"tinygrad": path, "device": args.tinygrad_device, "jit": int(jit)} for jit in args.jit.split(",")]
        for program in programs:
            bench.program(program, [None if rtt == "none" else float(rtt) for rtt in args.rtt.split(",")])
    finally:
        server.kill()
        server.wait()
    if args.json:
        with open(args.json, "w") as file:
            json.dump(result(bench.rows), file, indent=1)
    if bench.wrong:
        print(f"{bench.wrong} outputs differ from the local one", flush=True)
    return 1 if bench.wrong else 0


def result(rows):
    """In the form of `reef bench`, for `cargo xtask tables`."""
    said = subprocess.run(["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"], capture_output=True, text=True)
    return {"bench": "remote-programs", "command": " ".join(["tools/remote/replay.py"] + sys.argv[1:]), "device": {"name": said.stdout.strip()},
            "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "rows": rows}


class Bench:
    def __init__(self, work, there, here, address, bandwidth, end, is_fake):
        self.work, self.there, self.here, self.address = work, there, here, address
        self.bandwidth, self.end, self.is_fake = bandwidth, end, is_fake
        self.rows, self.wrong = [], 0

    def program(self, program, rtts):
        name = f"{program['launches']} launches" if "launches" in program else f"tinygrad ResNet-50, JIT={program['jit']}"
        local = self.child(program, None, None, {})
        if local is None:
            return
        print(f"\n{name}: {local['ms']:.3f} ms on this machine\n", flush=True)
        print("| RTT, ms | mode | ms | messages | bytes up | bytes down | floor, ms |", flush=True)
        print("|--:|---|--:|--:|--:|--:|--:|", flush=True)
        for rtt in rtts:
            for mode, variables in MODES.items():
                counted = self.count(program, variables)
                line = f"rtt:{rtt}ms+bw:{self.bandwidth}" if rtt is not None else ""
                shown = "none" if rtt is None else f"{rtt:g}"
                got = self.child(program, self.address, line, variables)
                if got is None:
                    print(f"| {shown} | {mode} | – | | | | |", flush=True)
                    continue
                floor = local["ms"]
                if rtt is not None:
                    floor += rtt + 1000 * (INPUT + OUTPUT) / bytes_per_second(self.bandwidth)
                # Random numbers are tinygrad's own, equal in each process.
                is_equal = got["output"] == local["output"]
                self.wrong += not is_equal
                messages, up, down = counted or (0, 0, 0)
                row = dict(program=name, rtt_ms=rtt, bandwidth=self.bandwidth, mode=mode, ms=got["ms"], p90_ms=got["p90"],
                           inferences=got["count"], messages=messages, bytes_up=up, bytes_down=down, floor_ms=floor,
                           local_ms=local["ms"], equal=is_equal)
                self.rows.append(row)
                differs = "" if is_equal else " DIFFERS"
                print(f"| {shown} | {mode} | {got['ms']:.2f}{differs} | {messages:.0f} | {up:,.0f} | {down:,.0f} | {floor:.2f} |",
                      flush=True)

    def count(self, program, variables):
        """Messages and bytes of an inference: the difference of two counts, at a line of 1 ms."""
        key = json.dumps([program, variables])
        known = self.__dict__.setdefault("counts", {})
        if key not in known:
            found = []
            for inferences in (10, 20):
                relay = Relay(os.path.join(self.work, f"relay-{len(known)}-{inferences}.sock"), self.address[5:])
                got = self.child(dict(program, count=inferences), f"unix:{relay.path}", "rtt:1ms+bw:1gbit", variables)
                found.append(relay.counts() if got else None)
            known[key] = [(b - a) / 10 for a, b in zip(*found)] if all(found) else None
        return known[key]

    def child(self, program, address, line, variables):
        left = self.end - time.monotonic()
        if left < 10:
            return None
        environment = dict(os.environ, PYTHONUNBUFFERED="1", CACHEDB=os.path.join(self.work, "cache.db"), **variables)
        environment["LD_LIBRARY_PATH"] = (self.there if address else self.here) + ":" + os.environ.get("LD_LIBRARY_PATH", "")
        if address:
            environment.update(REEF_REMOTE=address, REEF_REMOTE_EMULATE=line, LD_PRELOAD=os.path.join(self.there, "libcuda.so.1"))
            environment.update(CUDA_PATH=os.path.join(self.there, "libcuda.so.1"))
        spec = dict(program, is_fake=self.is_fake)
        command = [sys.executable, os.path.abspath(__file__), "--child", json.dumps(spec)]
        try:
            done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=min(left, 240))
        except subprocess.TimeoutExpired:
            print("no end in time", file=sys.stderr)
            return None
        if done.returncode != 0:
            print(f"{spec}: code {done.returncode}: {(done.stdout + done.stderr)[-800:]}", file=sys.stderr, flush=True)
            return None
        return json.loads(done.stdout.splitlines()[-1])


def bytes_per_second(text):
    for unit, factor in (("kbit", 125), ("mbit", 125e3), ("gbit", 125e6)):
        if text.endswith(unit):
            return float(text[: -len(unit)]) * factor
    raise SystemExit(f"bandwidth: must end with kbit, mbit or gbit, got {text}")


class Relay:
    """A place on the way that counts messages: 16 bytes with the length of the body, and the body up to a multiple of 8."""

    def __init__(self, path, server):
        self.path, self.threads, self.found = path, [], [(0, 0), (0, 0)]
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(path)
        self.listener.listen(1)
        self.listener.settimeout(60)
        self.main = threading.Thread(target=self.serve, args=(server,), daemon=True)
        self.main.start()

    def serve(self, path):
        try:
            client, _ = self.listener.accept()
        except OSError:
            return
        server = socket.socket(socket.AF_UNIX)
        server.connect(path)
        ways = ((client, server, 0), (server, client, 1))
        self.threads = [threading.Thread(target=self.carry, args=way, daemon=True) for way in ways]
        [thread.start() for thread in self.threads]
        [thread.join() for thread in self.threads]

    def carry(self, begin, end, way):
        messages, total, rest = 0, 0, b""
        left = 0  # bytes of the current body
        try:
            while data := begin.recv(1 << 18):
                end.sendall(data)
                total += len(data)
                rest += data
                while rest:
                    if left:
                        took = min(left, len(rest))
                        left, rest = left - took, rest[took:]
                    elif len(rest) >= 16:
                        left, rest, messages = (struct.unpack("<I", rest[:4])[0] + 7) // 8 * 8, rest[16:], messages + 1
                    else:
                        break
        except OSError:
            pass
        self.found[way] = (messages, total)
        for side in (begin, end):
            try:
                side.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def counts(self):
        self.main.join(10)
        (up, bytes_up), (down, bytes_down) = self.found
        return up + down, bytes_up, bytes_down


def child(spec):
    inference = tinygrad(spec) if "tinygrad" in spec else launches(spec)
    outputs, times = hashlib.sha256(), []
    fixed = spec.get("count")
    begin = time.monotonic()
    # The first six passes are recorded, defined and tried. They do not count, unless each takes long.
    for at in range(fixed or 200):
        start = time.monotonic()
        output = inference(at)
        times.append(1000 * (time.monotonic() - start))
        if at < 3:
            outputs.update(output)
        if not fixed and at >= (2 if times[-1] > 700 else 11) and time.monotonic() - begin > 3:
            break
    times = sorted(times[6:] or times[1:])
    print(json.dumps(dict(ms=statistics.median(times), p90=times[len(times) * 9 // 10], count=len(times),
                          output=outputs.hexdigest())))
    sys.stdout.flush()
    os._exit(0)  # at once: no call after this is measured


def launches(spec):
    driver = ctypes.CDLL("libcuda.so.1")
    P, Z, U = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint64

    def check(code):
        if code:
            raise SystemExit(f"code {code}")

    context, module, mix, memory, stream = P(), P(), P(), U(), P()
    check(driver.cuInit(0))
    check(driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
    check(driver.cuCtxSetCurrent(context))
    if not spec["is_fake"]:
        check(driver.cuModuleLoadData(ctypes.byref(module), PTX))
    check(driver.cuModuleGetFunction(ctypes.byref(mix), module, b"mix"))
    check(driver.cuMemAlloc_v2(ctypes.byref(memory), Z(INPUT)))
    check(driver.cuStreamCreate(ctypes.byref(stream), 1))
    # All arguments are made before: what is timed is the driver's functions.
    calls, kept = [], []
    for at in range(spec["launches"]):
        to, value = U(memory.value + 8 * (at * 7 % 500)), U(at * 0x0101010101)
        params = (P * 2)(ctypes.cast(ctypes.byref(to), P), ctypes.cast(ctypes.byref(value), P))
        kept.append((to, value))  # the arrays have their addresses alone
        calls.append((mix, 1, 1, 1, 1, 1, 1, 0, stream, params, None))
    content, result = ctypes.create_string_buffer(INPUT), ctypes.create_string_buffer(OUTPUT)
    launch = driver.cuLaunchKernel

    def inference(at):
        content[0:8] = struct.pack("<Q", at)
        check(driver.cuMemcpyHtoDAsync_v2(memory, content, Z(INPUT), stream))
        for call in calls:
            check(launch(*call))
        check(driver.cuMemcpyDtoHAsync_v2(result, memory, Z(OUTPUT), stream))
        check(driver.cuStreamSynchronize(stream))
        return result.raw

    inference.kept = kept
    return inference


def tinygrad(spec):
    sys.path.insert(0, spec["tinygrad"])
    os.environ.update(DEV=spec["device"], JIT=str(spec["jit"]))
    from tinygrad import Tensor, TinyJit, dtypes, nn

    class Bottleneck:
        def __init__(self, channels, width, stride):
            out = 4 * width
            self.conv1, self.bn1 = nn.Conv2d(channels, width, 1, bias=False), nn.BatchNorm2d(width)
            self.conv2, self.bn2 = nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width)
            self.conv3, self.bn3 = nn.Conv2d(width, out, 1, bias=False), nn.BatchNorm2d(out)
            self.side = None
            if stride != 1 or channels != out:
                self.side, self.bn4 = nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out)

        def __call__(self, x):
            y = self.bn1(self.conv1(x)).relu()
            y = self.bn3(self.conv3(self.bn2(self.conv2(y)).relu()))
            return (y + (self.bn4(self.side(x)) if self.side else x)).relu()

    class ResNet50:
        def __init__(self):
            self.conv1, self.bn1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64)
            self.blocks, channels = [], 64
            for width, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
                for at in range(count):
                    self.blocks.append(Bottleneck(channels, width, stride if at == 0 else 1))
                    channels = 4 * width
            self.fc = nn.Linear(2048, 1000)

        def __call__(self, x):
            x = self.bn1(self.conv1(x)).relu().pad((1, 1, 1, 1)).max_pool2d((3, 3), 2)
            for block in self.blocks:
                x = block(x)
            return self.fc(x.mean([2, 3]))

    Tensor.manual_seed(7)
    network = ResNet50()
    Tensor.realize(*nn.state.get_parameters(network))
    forward = TinyJit(lambda x: network(x).realize()) if spec["jit"] else lambda x: network(x).realize()
    pictures = [bytes(bytearray((at * 37 + i * 11) % 251 // 4 for i in range(INPUT // 4))) for at in range(8)]
    floats = [struct.pack(f"<{INPUT // 4}f", *(b / 64 for b in picture)) for picture in pictures]

    def inference(at):
        picture = Tensor(floats[at % 8], dtype=dtypes.float32)
        return bytes(forward(picture.reshape(1, 3, 224, 224).contiguous().realize()).data())

    return inference


if __name__ == "__main__":
    main()
