"""Program of candidates.py: makes works by their names, runs them, and finds facts about green contexts.

guest.py    writes "ready", then a line of JSON for each line of JSON: {"work": NAME, "settle": S, "seconds": S, "after": S},
            {"build": [NAME, ..]} or {"facts": 1}

Rounds of kernels are the same in all processes. Lengths are measured.
"""
import gc
import json
import re
import sys

import green
import programs

KERNELS = r"""
extern "C" __global__ void until(unsigned long long* next, unsigned long long period) {
    unsigned long long now;
    for (;;) {
        asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
        if (now >= *next) break;
        __nanosleep(100);
    }
    *next = (*next + period > now ? *next : now - period) + period;  // at most one period is made up for
}
extern "C" __global__ void spin(int rounds, float* out) {
    float x = threadIdx.x;
    for (int i = 0; i < rounds; i++) x = fmaf(x, 1.0001f, 0.5f);
    if (x == 1.5f) *out = x;
}
extern "C" __global__ void sweep(const float4* data, int count, int rounds, float* out) {
    float sum = 0;
    for (int r = 0; r < rounds; r++)
        for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
            sum += __ldcg(data + i).x;
    if (sum == 1.5f) *out = sum;
}
extern "C" __global__ void where(int* units) {
    long long end = clock64() + 40000;
    while (clock64() < end) {}
    int unit;
    asm volatile("mov.u32 %0, %smid;" : "=r"(unit));
    if (threadIdx.x == 0) units[blockIdx.x] = unit;
}
"""


class Graphed:
    """Steps of a graph, of which two are in flight."""

    def __init__(self, torch, enqueue, stream, units):
        self.torch, self.stream, self.units, self.graph = torch, stream, units, torch.cuda.CUDAGraph()
        with torch.cuda.stream(stream):
            enqueue()
        torch.cuda.synchronize()
        with torch.cuda.graph(self.graph, stream=stream):
            for _ in range(units):
                enqueue()

    def begin(self):
        self.torch.cuda.synchronize()
        self.last = None

    def __call__(self):
        with self.torch.cuda.stream(self.stream):
            self.graph.replay()
            event = self.torch.cuda.Event()
            event.record()
        if self.last:
            self.last.synchronize()
        self.last = event


class On:
    """Steps of a trainer on several streams in turn."""

    def __init__(self, torch, step, streams):
        self.torch, self.step, self.streams, self.ends = torch, step, streams, step.ends

    def begin(self):
        if self.torch.cuda.memory_reserved() > 20 << 30:  # each stream has memory of its own
            self.torch.cuda.empty_cache()
        with self.torch.cuda.stream(self.streams[0]):
            self.step.begin()

    def __call__(self):
        self.streams.append(self.streams.pop(0))
        self.streams[0].wait_stream(self.streams[-1])
        with self.torch.cuda.stream(self.streams[0]):
            self.step()


def native(torch):
    """The trainer `train`, with PyTorch's own batch norms instead of cuDNN's."""
    trainer = programs.torch_train(torch)

    def without(norm):
        def forward(x):
            torch.backends.cudnn.enabled = False
            try:
                return norm(x)
            finally:
                torch.backends.cudnn.enabled = True

        return forward

    for one in trainer.model.modules():
        if isinstance(one, torch.nn.BatchNorm2d):
            one.forward = without(one.forward)
    return trainer


def gpt(torch):
    """Trainer of four transformer layers: no convolutions."""
    layer = torch.nn.TransformerEncoderLayer(1024, 16, 4096, dropout=0, batch_first=True, norm_first=True)
    model = torch.nn.TransformerEncoder(layer, 4, enable_nested_tensor=False).cuda()
    return programs.Trainer(torch, model, torch.randn(16, 512, 1024, device="cuda"), lambda m, b: m(b).square().mean())


TRAINERS = dict(train=programs.torch_train, native=native, gpt=gpt)


class Guest:
    """Program that makes works by their names."""

    def __init__(self):
        import cupy
        import torch

        self.torch, self.cupy, self.trainers, self.kept = torch, cupy, {}, []
        self.works, self.streams, self.lengths, self.greens = {}, {}, {}, {}
        torch.manual_seed(3)
        module = cupy.RawModule(code=KERNELS)
        self.kernels = {name: module.get_function(name) for name in ("until", "spin", "sweep", "where")}
        self.words = torch.zeros(8192, dtype=torch.int64, device="cuda")
        make = lambda *shape, kind=torch.bfloat16: torch.randn(*shape, device="cuda").to(kind)
        self.a, self.b = make(4096, 2048), make(2048, 4096)
        self.c, self.tiny = make(4096, 4096), make(4096)
        self.long, self.cached = make(53_000_000, kind=torch.float), make(4 << 20, kind=torch.float)
        self.out = torch.empty_like(self.long)

    def launch(self, name, grid, block, *args):
        args = tuple(self.cupy.uint64(one) if type(one) is int else one for one in args)
        with self.cupy.cuda.ExternalStream(self.torch.cuda.current_stream().cuda_stream):
            self.kernels[name]((grid,), (block,), args)

    def unit(self, kind, us):
        """Returns what enqueues a unit of this kind."""
        torch, int32, full = self.torch, self.cupy.int32, max(1, int((us - 1.5) * 105))
        words, spin = self.words.data_ptr(), lambda grid, block, rounds: self.launch("spin", grid, block, int32(rounds), words)
        return dict(
            gemm=lambda: torch.mm(self.a, self.b, out=self.c),
            copy=lambda: torch.mul(self.long, 1.5, out=self.out),
            sweep=lambda: self.launch("sweep", 264, 1024, self.cached.data_ptr(), int32(1 << 20), int32(50), words),
            small=lambda: [torch.add(self.tiny, 1, out=self.tiny) for _ in range(96)],
            spin=lambda: spin(264, 1024, full),
            few=lambda: spin(16, 256, 4 * full),
            waves=lambda: spin(264 * us // 20, 1024, 20 * 105),
            nap=lambda: None,
        )[kind]

    def stream(self, units):
        """Returns the stream of a green context, or a plain one for 0."""
        if units not in self.streams:
            if units:
                self.greens[units] = green.Green(units)
            raw = units and self.torch.cuda.ExternalStream(self.greens[units].stream.value)
            self.streams[units] = raw or self.torch.cuda.Stream()
        return self.streams[units]

    def graph(self, kind, us, stream, share):
        unit, base = self.unit(kind, us), f"{kind}:{us}"
        if not share:
            return Graphed(self.torch, unit, stream, max(4, min(256, 4000 // (us or 100))))
        period = (us if kind == "nap" else self.length(base)) / share * 100
        next_at = self.words.data_ptr() + 8 * (len(self.works) + 16)
        wait = lambda: self.launch("until", 1, 1, next_at, int(period * 1000))
        return Graphed(self.torch, lambda: (wait(), unit()), stream, max(1, min(256, int(4000 / period))))

    def length(self, base):
        """Measures the time of a unit alone, in microseconds."""
        if base not in self.lengths:
            step, events = self.work(base), [self.torch.cuda.Event(enable_timing=True) for _ in range(2)]
            with self.torch.cuda.stream(step.stream):
                step.graph.replay()
                events[0].record()
                for _ in range(4):
                    step.graph.replay()
                events[1].record()
            self.torch.cuda.synchronize()
            self.lengths[base] = events[0].elapsed_time(events[1]) * 1000 / 4 / step.units
        return self.lengths[base]

    def work(self, name):
        if name not in self.works:
            kind, us, on, share = re.fullmatch(r"([a-z]+)(?::(\d+))?(?:@([\d-]+))?(?:/(\d+))?", name).groups()
            streams = [self.stream(int(units)) for units in (on or "0").split("-")]
            self.works[name] = self.make(kind, int(us or 0), streams, int(share or 0))
            getattr(self.works[name], "begin", lambda: None)()
            [self.works[name]() for _ in range(8 if kind in TRAINERS else 3)]
            self.torch.cuda.synchronize()
        return self.works[name]

    def make(self, kind, us, streams, share):
        torch = self.torch
        if kind == "llm":
            return programs.torch_llm(torch)
        if kind in TRAINERS:
            self.trainers[kind] = self.trainers.get(kind) or TRAINERS[kind](torch)
            return On(torch, self.trainers[kind], streams)
        if kind == "decode":
            model = programs.Decoder(torch, layers=4, words=8000)
            with torch.no_grad():
                replay, token = programs.graphed(torch, model.step)
            self.kept.append(model)  # a graph doesn't keep its memory
            return lambda: (replay(), token.item())
        if kind == "compute":
            square = [torch.randn(2048, 2048, device="cuda", dtype=torch.bfloat16) for _ in range(3)]
            replay, _ = programs.graphed(torch, lambda: [torch.mm(*square[:2], out=square[2]) for _ in range(16)])
            self.kept.append(square)
            return lambda: (replay(), torch.cuda.synchronize())
        return self.graph(kind, us, streams[0], share)

    def build(self, names):
        """Returns what could not be built, and why."""
        failed = {}
        for name in names:
            try:
                self.work(name)
            except Exception as error:  # the next one may work
                failed[name] = f"{type(error).__name__}: {error}"[:200]
        has = self.torch.cuda.get_device_properties(0).multi_processor_count
        return dict(failed=failed, lengths=self.lengths, multiprocessors=has)

    def run(self, work, settle, seconds, after):
        step = self.work(work)
        result = programs.run(step, settle, seconds, after)
        del result["marks"], result["ends"]
        result["per_s"] *= getattr(step, "units", 1)
        return dict(result, work=work)


def serve():
    guest = Guest()
    gc.disable()
    gc.freeze()
    print("ready", flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        try:
            if "facts" in order:
                answer = green.Facts(guest).all()
            elif "build" in order:
                answer = guest.build(order["build"])
            else:
                answer = guest.run(**order)
        except Exception as error:  # the next order may work
            answer = dict(error=f"{type(error).__name__}: {error}"[:300])
        print(json.dumps(answer), flush=True)


serve()
