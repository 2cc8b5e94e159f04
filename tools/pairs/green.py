"""Green contexts of CUDA's driver, and facts about them in this process.

Facts are the multiprocessors that kernels run on, and the times of a product in a graph, in microseconds.
"""
import ctypes
import statistics
import time


def cu(name, *args):
    code = getattr(ctypes.CDLL("libcuda.so.1"), name)(*args)
    if code:
        raise RuntimeError(f"{name}: {code}")


def made(name, *args):
    """Returns the handle that a call of the driver makes."""
    handle = ctypes.c_void_p()
    cu(name, ctypes.byref(handle), *args)
    return handle


class Green:
    """Green context of some multiprocessors, and a stream of it."""

    def __init__(self, units):
        begin = time.perf_counter()
        kind = ctypes.c_uint64 * 18  # CUdevResource; its count of multiprocessors is at byte 96
        part, whole = kind(), kind()
        cu("cuDeviceGetDevResource", 0, ctypes.byref(whole), 1)
        if units < whole[12] & 0xFFFFFFFF:
            groups, flags = ctypes.c_uint(1), 1 if units % 8 else 0  # 1: any even number
            cu("cuDevSmResourceSplitByCount", part, ctypes.byref(groups), whole, None, flags, units)
        else:
            part = whole
        self.units = part[12] & 0xFFFFFFFF
        self.raw = made("cuGreenCtxCreate", made("cuDevResourceGenerateDesc", part, 1), 0, 1)
        self.stream = made("cuGreenCtxStreamCreate", self.raw, 1, 0)
        self.context = made("cuCtxFromGreenCtx", self.raw)
        self.made_ms = round((time.perf_counter() - begin) * 1e3, 2)


class Node(ctypes.Structure):
    """CUDA_KERNEL_NODE_PARAMS_v2"""

    _fields_ = [("func", ctypes.c_void_p), ("sizes", ctypes.c_uint * 7), ("params", ctypes.c_void_p)]
    _fields_ += [("extra", ctypes.c_void_p), ("kern", ctypes.c_void_p), ("ctx", ctypes.c_void_p)]


class Facts:
    """Facts about green contexts in this process: multiprocessors that kernels run on, and times of a product."""

    def __init__(self, guest):
        self.guest, self.torch, self.found = guest, guest.torch, {}

    def note(self, name, find):
        try:
            self.found[name] = find()
        except Exception as error:  # a fact too
            self.found[name] = str(error)[:120]

    def spread(self, stream):
        with self.torch.cuda.stream(stream):
            self.guest.launch("where", 1056, 256, self.guest.words.data_ptr() + 1024)
        self.torch.cuda.synchronize()
        return len(set(self.guest.words.view(self.torch.int32)[256:1312].tolist()))

    def spread_current(self, green):
        cu("cuCtxPushCurrent_v2", green.context)
        try:
            return self.spread(self.torch.cuda.ExternalStream(made("cuStreamCreate", 1).value))
        finally:
            cu("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))

    def captured(self, stream):
        """Captures a product, and returns the graph and its kernel's node with its parameters."""
        raw, graph, count, params = ctypes.c_void_p(stream.cuda_stream), ctypes.c_void_p(), ctypes.c_size_t(8), Node()
        with self.torch.cuda.stream(stream):
            self.guest.unit("gemm", 0)()
            self.torch.cuda.synchronize()
            cu("cuStreamBeginCapture_v2", raw, 2)
            self.guest.unit("gemm", 0)()
            cu("cuStreamEndCapture", raw, ctypes.byref(graph))
        nodes, kind = (ctypes.c_void_p * 8)(), ctypes.c_int()
        cu("cuGraphGetNodes", graph, nodes, ctypes.byref(count))
        for node in map(ctypes.c_void_p, nodes[: count.value]):
            cu("cuGraphNodeGetType", node, ctypes.byref(kind))
            if kind.value == 0:
                cu("cuGraphKernelNodeGetParams_v2", node, ctypes.byref(params))
                return graph, node, params, count.value

    def us(self, graph, stream, change=lambda ready: None):
        """Time of a launch of a graph in a stream, in microseconds."""
        ready, times = made("cuGraphInstantiateWithFlags", graph, ctypes.c_uint64(0)), []
        change(ready)
        for _ in range(9):
            self.torch.cuda.synchronize()
            begin = time.perf_counter()
            cu("cuGraphLaunch", ready, ctypes.c_void_p(stream.cuda_stream))
            self.torch.cuda.synchronize()
            times.append((time.perf_counter() - begin) * 1e6)
        return round(statistics.median(times), 1)

    def moved(self, green, plain, is_exec):
        """Time of a graph, captured on all, whose node or whose instance's node was given the green context."""
        graph, node, params, count = self.captured(plain)
        self.found["node"] = dict(nodes=count, func=bool(params.func), kern=bool(params.kern), ctx=bool(params.ctx))
        params.func, params.kern, params.ctx = None, params.kern or params.func, green.context
        if not is_exec:
            cu("cuGraphKernelNodeSetParams_v2", node, ctypes.byref(params))
            return self.us(graph, plain)
        change = lambda ready: cu("cuGraphExecKernelNodeSetParams_v2", ready, node, ctypes.byref(params))
        return self.us(graph, plain, change)

    def update(self, ready, graph):
        cu("cuGraphExecUpdate_v2", ready, graph, (ctypes.c_uint64 * 3)())

    def together(self, units, blocks=132):
        """Launches blocks that need to run together (a cooperative launch) on some multiprocessors."""
        stream, function = self.guest.stream(units), self.guest.kernels["where"].kernel.ptr
        word = ctypes.c_uint64(self.guest.words.data_ptr() + 1024)
        args = (ctypes.c_void_p * 1)(ctypes.addressof(word))
        sizes = map(ctypes.c_uint, (blocks, 1, 1, 1024, 1, 1, 0))
        cu("cuLaunchCooperativeKernel", ctypes.c_void_p(function), *sizes, ctypes.c_void_p(stream.cuda_stream), args)
        self.torch.cuda.synchronize()
        return "launched"

    def resource(self):
        resource = (ctypes.c_uint64 * 18)()
        cu("cuDeviceGetDevResource", 0, resource, 1)
        return resource[12] & 0xFFFFFFFF

    def all(self):
        plain = self.guest.stream(0)
        self.note("multiprocessors", self.resource)
        self.note("attribute", lambda: self.torch.cuda.get_device_properties(0).multi_processor_count)
        self.note("spread: plain stream", lambda: self.spread(plain))
        self.note("132 blocks together, plain stream", lambda: self.together(0))
        for units in (8, 16, 28, 132):
            self.note(f"spread: stream of {units}", lambda: self.spread(self.guest.stream(units)))
            self.note(f"132 blocks together, stream of {units}", lambda: self.together(units))
        if 16 in self.guest.greens:
            self.graphs(plain, self.guest.stream(16), self.guest.greens[16])
        return self.found

    def graphs(self, plain, part, green):
        self.found.update(made_ms=green.made_ms)
        self.note("spread: context of 16 is current", lambda: self.spread_current(green))
        graph, there = self.captured(plain)[0], self.captured(part)[0]
        self.us(graph, plain)
        self.note("us: captured on all", lambda: self.us(graph, plain))
        self.note("us: captured on all, launched on 16", lambda: self.us(graph, part))
        self.note("us: captured on 16", lambda: self.us(there, part))
        self.note("us: captured on 16, launched on all", lambda: self.us(there, plain))
        self.note("us: captured on all, node moved", lambda: self.moved(green, plain, False))
        self.note("us: captured on all, node of the instance moved", lambda: self.moved(green, plain, True))
        update = lambda ready: self.update(ready, there)
        self.note("us: captured on all, updated by one of 16", lambda: self.us(graph, plain, update))
