#!/usr/bin/env python3
"""What a small kernel of a graph costs with and without MPS, and what changes that.

    tools/pairs/mps_gaps.py [--repeat 5]

Needs a GPU of compute capability 9.0 or newer, and of programs NVIDIA's driver and nvidia-cuda-mps-control. Each way makes a graph of kernels that add 1 to 256 numbers, of
as much work in all, and launches it again and again: the median time of a launch, divided by the kernels that the plain way
has. The processes without MPS take turns with those that use it; each has all ways. The table has the median of the processes,
the least and the greatest, and what MPS adds to a kernel.
"""
import argparse
import ctypes
import json
import os
import statistics
import subprocess
import sys
import time

KERNELS = 960  # of the plain graph; the number can be divided by all that a way divides by
WARM, LAUNCHES = 5, 60
# Adds 1 as many times as it is told. `linked` begins while its predecessor runs, and waits for its end before it reads.
PTX = b"""
.version 7.8
.target sm_90
.address_size 64
%s
"""
ENTRY = """
.visible .entry %s(.param .u64 data, .param .u32 times)
{
    .reg .pred p;
    .reg .f32 f;
    .reg .b32 t, n;
    .reg .b64 a, o;
    %s
    ld.param.u64 a, [data];
    ld.param.u32 n, [times];
    mov.u32 t, %%tid.x;
    mul.wide.u32 o, t, 4;
    add.s64 a, a, o;
again:
    ld.global.volatile.f32 f, [a];
    add.f32 f, f, 0f3F800000;
    st.global.volatile.f32 [a], f;
    sub.u32 n, n, 1;
    setp.ne.u32 p, n, 0;
    @p bra again;
    ret;
}
"""
# Each way: branches of the graph, additions of a kernel, and what else it has.
WAYS = {
    "plain": (1, 1, ""),
    "uploaded before its launch": (1, 1, "upload"),
    "programmatic edges": (1, 1, "linked"),
    "on a stream of the greatest priority": (1, 1, "priority"),
    "two branches": (2, 1, ""),
    "four branches": (4, 1, ""),
    "a quarter of the kernels, each four times as long": (1, 4, ""),
    "launched one by one": (1, 1, "launches"),
}


class Attribute(ctypes.Structure):
    """CUlaunchAttribute."""

    _fields_ = [("id", ctypes.c_int), ("pad", ctypes.c_char * 4), ("value", ctypes.c_int * 16)]


class Config(ctypes.Structure):
    """CUlaunchConfig."""

    _fields_ = [(name, ctypes.c_uint) for name in ("gx", "gy", "gz", "bx", "by", "bz", "shared")]
    _fields_ += [("stream", ctypes.c_void_p), ("attributes", ctypes.POINTER(Attribute)), ("count", ctypes.c_uint)]


class Device:
    """The first GPU, a context on it, and the kernels."""

    def __init__(self):
        self.lib = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", 0)
        device = ctypes.c_int()
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.call("cuCtxSetCurrent", self.new("cuDevicePrimaryCtxRetain", device))
        early = "griddepcontrol.launch_dependents; griddepcontrol.wait;"
        text = PTX.replace(b"%s", (ENTRY % ("plain", "") + ENTRY % ("linked", early)).encode())
        module = self.new("cuModuleLoadData", ctypes.c_char_p(text))
        self.kernels = {name: self.new("cuModuleGetFunction", module, name.encode()) for name in ("plain", "linked")}
        self.data = [self.new("cuMemAlloc_v2", ctypes.c_size_t(1024)) for _ in range(4)]
        for data in self.data:
            self.call("cuMemsetD32_v2", data, 0, ctypes.c_size_t(256))
        least, greatest = ctypes.c_int(), ctypes.c_int()
        self.call("cuCtxGetStreamPriorityRange", ctypes.byref(least), ctypes.byref(greatest))
        self.priorities = {"": least.value, "priority": greatest.value}

    def call(self, name, *arguments):
        code = getattr(self.lib, name)(*arguments)
        if code:
            raise SystemExit(f"{name} returned {code}")

    def new(self, name, *arguments):
        """Calls a function that writes a handle to its first argument."""
        made = ctypes.c_void_p()
        self.call(name, ctypes.byref(made), *arguments)
        return made

    def stream(self, option=""):
        return self.new("cuStreamCreateWithPriority", 1, self.priorities.get(option, self.priorities[""]))

    def launch(self, stream, branch, times, is_linked):
        # CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
        attributes = (Attribute * 1)(Attribute(id=6, value=(ctypes.c_int * 16)(1)))
        config = Config(1, 1, 1, 256, 1, 1, 0, stream, attributes, int(is_linked))
        values = [self.data[branch], ctypes.c_uint(times)]
        pointers = (ctypes.c_void_p * 2)(*[ctypes.addressof(value) for value in values])
        self.call("cuLaunchKernelEx", ctypes.byref(config), self.kernels["linked" if is_linked else "plain"], pointers, None)

    def chain(self, stream, branches, times, option):
        """Puts all kernels on the stream and, of more than one branch, on streams that begin and end with it."""
        streams = [stream] + [self.stream() for _ in range(branches - 1)]
        events = [self.new("cuEventCreate", 2) for _ in streams]
        self.call("cuEventRecord", events[0], stream)
        for other in streams[1:]:
            self.call("cuStreamWaitEvent", other, events[0], 0)
        for _ in range(KERNELS // branches // times):
            for branch, own in enumerate(streams):
                self.launch(own, branch, times, option == "linked")
        for other, event in zip(streams[1:], events[1:]):
            self.call("cuEventRecord", event, other)
            self.call("cuStreamWaitEvent", stream, event, 0)

    def graph(self, stream, branches, times, option):
        self.call("cuStreamBeginCapture_v2", stream, 1)
        self.chain(stream, branches, times, option)
        graph = ctypes.c_void_p()
        self.call("cuStreamEndCapture", stream, ctypes.byref(graph))
        made = self.new("cuGraphInstantiateWithFlags", graph, ctypes.c_ulonglong(0))
        if option == "upload":
            self.call("cuGraphUpload", made, stream)
        return made

    def time_of(self, branches, times, option):
        """Median time of all kernels together, in µs of a kernel of the plain way."""
        stream = self.stream(option)
        if option == "launches":
            run = lambda: self.chain(stream, branches, times, option)
        else:
            made = self.graph(stream, branches, times, option)
            run = lambda: self.call("cuGraphLaunch", made, stream)
        found = []
        for _ in range(WARM + LAUNCHES):
            begun = time.perf_counter()
            run()
            self.call("cuStreamSynchronize", stream)
            found.append(time.perf_counter() - begun)
        return statistics.median(found[WARM:]) * 1e6 / KERNELS


def measured(environment):
    """All ways in a process of their own."""
    said = subprocess.run([sys.executable, __file__, "--here"], env=environment, capture_output=True, text=True)
    if said.returncode:
        raise SystemExit(said.stderr)
    return json.loads(said.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.here:
        device = Device()
        print(json.dumps({name: device.time_of(*way) for name, way in WAYS.items()}))
        return
    from colocate import end_mps, start_mps

    plain, mps = [], []
    bare = dict(os.environ)
    for _ in range(options.repeat):
        plain.append(measured(bare))
        environment = start_mps(bare)
        try:
            mps.append(measured(dict(environment, CUDA_MPS_CLIENT_PRIORITY="0")))
        finally:
            end_mps(environment)
    print("| graph | without MPS, µs a kernel | with MPS | difference |\n|---|--:|--:|--:|")
    for name in WAYS:
        rows = [[run[name] for run in runs] for runs in (plain, mps)]
        shown = [f"{statistics.median(row):.3f} ({min(row):.3f} to {max(row):.3f})" for row in rows]
        print(f"| {name} | {shown[0]} | {shown[1]} | {statistics.median(rows[1]) - statistics.median(rows[0]):.3f} |", flush=True)


if __name__ == "__main__":
    main()
