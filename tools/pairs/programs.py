"""Ordinary programs, nothing of REEF in them: random weights, no files, no network.

programs.py NAME
    prepares NAME and writes "ready". For each line "SETTLE SECONDS AFTER" it runs its steps for all
    three times, and writes a line of JSON about the second: steps a second, the time of a step (p50,
    p99), when its steps ended (marks), and when those of the device did (ends). Ends with its input.

Each step ends as such a program does: an element is read, or the device or the stream is waited for.
Trainers wait after every fourth step, and record an event after each, so that their speed is that of
the device. A step that ends outside counts by the part of its time that is inside.
"""
import json
import os
import sys
import time

import figures

QUANTILES = [("50", 0.5), ("90", 0.9), ("99", 0.99), ("999", 0.999)]


def torch_program(name):
    import torch

    torch.manual_seed(3)  # no cudnn.benchmark: it would choose by what else runs meanwhile
    return globals()["torch_" + name.replace("-", "_")](torch)


class Decoder:
    """Decodes tokens with 1.1 B weights and a static cache, batch 1."""

    def __init__(self, torch, layers=22, width=2048, heads=16, wide=5632, words=32000, room=256):
        self.torch, self.layers, self.heads, self.head = torch, layers, heads, width // heads
        make = lambda *shape: torch.randn(*shape, device="cuda", dtype=torch.bfloat16) * 0.02
        self.w = [
            dict(qkv=make(3 * width, width), out=make(width, width), up=make(2 * wide, width), down=make(width, wide))
            for _ in range(layers)
        ]
        self.words, self.lm = make(words, width), make(words, width)
        self.k = torch.zeros(layers, 1, heads, room, self.head, device="cuda", dtype=torch.bfloat16)
        self.v = torch.zeros_like(self.k)
        self.token = torch.zeros(1, dtype=torch.long, device="cuda")
        self.at = torch.zeros(1, dtype=torch.long, device="cuda")
        self.places = torch.arange(room, device="cuda")
        self.room = room

    def step(self):
        f = self.torch.nn.functional
        x = f.embedding(self.token, self.words)
        mask = (self.places <= self.at)[None, None, None]
        for i, w in enumerate(self.w):
            y = f.rms_norm(x, x.shape[-1:])
            q, k, v = f.linear(y, w["qkv"]).view(1, 3, self.heads, 1, self.head).unbind(1)
            self.k[i].index_copy_(2, self.at, k)
            self.v[i].index_copy_(2, self.at, v)
            y = f.scaled_dot_product_attention(q, self.k[i], self.v[i], attn_mask=mask)
            x = x + f.linear(y.reshape(1, -1), w["out"])
            gate, up = f.linear(f.rms_norm(x, x.shape[-1:]), w["up"]).chunk(2, -1)
            x = x + f.linear(f.silu(gate) * up, w["down"])
        return f.linear(f.rms_norm(x, x.shape[-1:]), self.lm).argmax(-1)


def graphed(torch, step):
    """Captures a step into a CUDA graph, and returns its replay and its result."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = step()
    return graph.replay, result


def llm(torch, is_graph):
    with torch.no_grad():
        model = Decoder(torch)
        for _ in range(3):
            model.step()
        replay, next_token = graphed(torch, model.step) if is_graph else (None, None)

        def step():
            with torch.no_grad():
                if replay:
                    replay()
                    token = next_token
                else:
                    token = model.step()
                model.token.copy_(token)
                model.at.add_(1).remainder_(model.room)
                return token.item()

    return step


def torch_llm(torch):
    return llm(torch, True)


def torch_llm_eager(torch):
    return llm(torch, False)


class Trainer:
    """Steps of training. Waits after every fourth one."""

    def __init__(self, torch, model, batch, loss_of):
        self.torch, self.model, self.batch, self.loss_of, self.count, self.events = torch, model, batch, loss_of, 0, []
        self.optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9)

    def event(self):
        event = self.torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def begin(self):
        """Begins a run, while the device is idle."""
        self.torch.cuda.synchronize()
        self.events = [self.event()]
        self.torch.cuda.synchronize()
        self.began = time.monotonic()

    def __call__(self):
        self.optimizer.zero_grad(set_to_none=True)
        with self.torch.autocast("cuda", self.torch.bfloat16):
            loss = self.loss_of(self.model, self.batch)
        loss.backward()
        self.optimizer.step()
        self.events.append(self.event())
        self.count += 1
        if self.count % 4 == 0:
            self.torch.cuda.synchronize()

    def ends(self):
        """Returns the times at which the device ended the steps of this run."""
        self.torch.cuda.synchronize()
        return [self.began + self.events[0].elapsed_time(event) / 1e3 for event in self.events[1:]]


def torch_train(torch):
    """ResNet-50, batch 64."""
    import torchvision

    model = torchvision.models.resnet50().cuda().to(memory_format=torch.channels_last)
    x = torch.randn(64, 3, 224, 224, device="cuda").to(memory_format=torch.channels_last)
    y = torch.randint(0, 1000, (64,), device="cuda")
    return Trainer(torch, model, (x, y), lambda m, b: torch.nn.functional.cross_entropy(m(b[0]), b[1]))


def torch_train_small(torch):
    """ResNet-18, batch 32; each step's loss is read."""
    import torchvision

    model = torchvision.models.resnet18().cuda()
    x = torch.randn(32, 3, 224, 224, device="cuda")
    y = torch.randint(0, 1000, (32,), device="cuda")
    step = Trainer(torch, model, (x, y), lambda m, b: torch.nn.functional.cross_entropy(m(b[0]), b[1]))

    def waits():
        step.events.clear()
        step()
        torch.cuda.synchronize()

    return waits


def picture(torch, name, size=1):
    import torchvision

    model = getattr(torchvision.models, name)().cuda().eval().half().to(memory_format=torch.channels_last)
    x = torch.randn(size, 3, 224, 224, device="cuda", dtype=torch.half).to(memory_format=torch.channels_last)
    with torch.no_grad():
        replay, _ = graphed(torch, lambda: model(x))

    def step():
        replay()
        torch.cuda.synchronize()

    return step


def torch_resnet50(torch):
    return picture(torch, "resnet50")


def torch_resnet152(torch):
    return picture(torch, "resnet152")


def torch_whisper(torch):
    """An encoder like Whisper's base: two convolutions and 6 layers over 1,500 frames."""
    nn = torch.nn
    layer = nn.TransformerEncoderLayer(512, 8, 2048, activation="gelu", batch_first=True, norm_first=True)
    front = nn.Sequential(nn.Conv1d(80, 512, 3, padding=1), nn.GELU(), nn.Conv1d(512, 512, 3, 2, 1), nn.GELU())
    front, body = front.cuda().half().eval(), nn.TransformerEncoder(layer, 6).cuda().half().eval()
    x = torch.randn(1, 80, 3000, device="cuda", dtype=torch.half)

    def step():
        with torch.no_grad():
            return body(front(x).transpose(1, 2))[0, 0, 0].item()

    return step


def torch_wav2vec(torch):
    """A speech model like wav2vec 2.0's base: seven convolutions over 5 s of sound, and 12 layers over 249 frames."""
    nn = torch.nn
    sizes = [(1, 10, 5)] + [(512, 3, 2)] * 4 + [(512, 2, 2)] * 2
    front = [one for into, size, stride in sizes for one in (nn.Conv1d(into, 512, size, stride), nn.GELU())]
    layer = nn.TransformerEncoderLayer(768, 12, 3072, activation="gelu", batch_first=True)
    front, widen = nn.Sequential(*front).cuda().half().eval(), nn.Linear(512, 768).cuda().half().eval()
    body = nn.TransformerEncoder(layer, 12).cuda().half().eval()
    x = torch.randn(1, 1, 80_000, device="cuda", dtype=torch.half)

    def step():
        with torch.no_grad():
            return body(widen(front(x).transpose(1, 2)))[0, 0, 0].item()

    return step


def torch_unet(torch):
    """A small diffusion U-Net on 64 x 64 latents, batch 2, one denoising step."""
    nn = torch.nn

    class Block(nn.Module):
        def __init__(self, a, b):
            super().__init__()
            self.one = nn.Sequential(nn.GroupNorm(8, a), nn.SiLU(), nn.Conv2d(a, b, 3, 1, 1))
            self.two = nn.Sequential(nn.GroupNorm(8, b), nn.SiLU(), nn.Conv2d(b, b, 3, 1, 1))
            self.way = nn.Conv2d(a, b, 1)

        def forward(self, x):
            return self.way(x) + self.two(self.one(x))

    class UNet(nn.Module):
        def __init__(self, widths=(192, 384, 576)):
            super().__init__()
            self.into, self.out = nn.Conv2d(4, widths[0], 3, 1, 1), nn.Conv2d(widths[0], 4, 3, 1, 1)
            pairs = list(zip((widths[0],) + widths[:-1], widths))
            self.down = nn.ModuleList(Block(a, b) for a, b in pairs)
            self.up = nn.ModuleList(Block(2 * b, a) for a, b in reversed(pairs))

        def forward(self, x):
            x, seen = self.into(x), []
            for block in self.down:
                x = block(x)
                seen.append(x)
                x = nn.functional.avg_pool2d(x, 2)
            for block in self.up:
                x = nn.functional.interpolate(x, scale_factor=2.0)
                x = block(torch.cat([x, seen.pop()], 1))
            return self.out(x)

    model = UNet().cuda().half().eval()
    x = torch.randn(2, 4, 64, 64, device="cuda", dtype=torch.half)

    def step():
        with torch.no_grad():
            y = x - 0.1 * model(x)
        torch.cuda.synchronize()
        return y

    return step


def torch_gnn(torch):
    """Three layers of a graph network with sums over neighbours: 50,000 nodes, 600,000 edges."""
    nodes, edges, width = 50_000, 600_000, 128
    a, b = (torch.randint(0, nodes, (edges,), device="cuda") for _ in range(2))
    x0 = torch.randn(nodes, width, device="cuda")
    w = [torch.randn(width, width, device="cuda") * 0.05 for _ in range(6)]

    def step():
        x = x0
        with torch.no_grad():
            for i in range(3):
                near = torch.zeros_like(x).index_add_(0, b, x[a])
                x = torch.relu(x @ w[2 * i] + near @ w[2 * i + 1])
            return x.sum().item()

    return step


def torch_compiled(torch):
    """Twelve blocks of products and norms over 512 rows, as torch.compile fuses them."""
    f, width = torch.nn.functional, 1024
    make = lambda *shape: torch.randn(*shape, device="cuda", dtype=torch.half) * 0.02
    blocks = [(make(width, 4 * width), make(4 * width, width)) for _ in range(12)]
    x0 = make(512, width)

    def run(x):
        for up, down in blocks:
            x = x + f.gelu(f.layer_norm(x, x.shape[-1:]) @ up) @ down
        return x

    run = torch.compile(run)

    def step():
        with torch.no_grad():
            return run(x0)[0, 0].item()

    return step


class Jax:
    """Eight layers of JAX over 512 rows."""

    def __init__(self):
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
        os.environ.setdefault("XLA_FLAGS", "--xla_gpu_autotune_level=0")  # nothing is chosen by what else runs
        import jax
        import jax.numpy as jnp

        self.jax, self.jnp = jax, jnp
        keys = jax.random.split(jax.random.PRNGKey(0), 9)
        self.w = [jax.random.normal(key, (2048, 2048), jnp.bfloat16) * 0.02 for key in keys[:8]]
        self.x = jax.random.normal(keys[8], (512, 2048), jnp.bfloat16)

    def layers(self, w, x):
        for one in w:
            x = self.jax.nn.gelu(x @ one) + x
        return x


def other_jax():
    it = Jax()
    run = it.jax.jit(it.layers)
    return lambda: run(it.w, it.x).block_until_ready()


def other_jax_train():
    """Trains the layers of `jax`. Each step is waited for."""
    it = Jax()
    loss = lambda w, x: it.jnp.mean(it.layers(w, x).astype(it.jnp.float32) ** 2)

    @it.jax.jit
    def update(w, x):
        return [one - 1e-4 * change for one, change in zip(w, it.jax.grad(loss)(w, x))]

    def step():
        it.w = it.jax.block_until_ready(update(it.w, it.x))

    return step


def other_cupy():
    import cupy

    x = cupy.random.random((1024, 1024)).astype(cupy.complex64)
    kernel = cupy.ElementwiseKernel("complex64 x", "complex64 y", "y = x * x + 1.0f", "square_plus")
    stream = cupy.cuda.Stream()

    def step():
        with stream:
            y = x
            for _ in range(6):
                y = cupy.fft.ifft2(kernel(cupy.fft.fft2(y)))
            stream.synchronize()

    return step


def run(step, settle, seconds, after):
    """Runs steps for these times. Returns what it measured of the second, and when its steps ended."""
    getattr(step, "begin", lambda: None)()
    start = time.monotonic()
    begin, end = start + settle, start + settle + seconds
    ends, now = [start], start
    while now < end + after:
        step()
        now = time.monotonic()
        ends.append(now)
    device = [start] + step.ends() if hasattr(step, "ends") else ends
    inside = [one for one in ends if begin < one <= end]
    if len(inside) < 2:  # a step that is held for longer than that
        inside = ends[-2:]
    times = figures.lengths(inside)
    at = {f"p{name}": round(figures.quantile(times, part), 4) for name, part in QUANTILES}
    per_s = figures.rate(device, begin, end)
    mean = round(sum(times) / len(times), 4)
    return dict(at, steps=len(times), per_s=per_s, mean=mean, max=max(times), marks=inside, ends=device)


def main():
    name = sys.argv[1]
    others = {"jax": other_jax, "jax-train": other_jax_train, "cupy": other_cupy}
    step = others[name]() if name in others else torch_program(name)
    for _ in range(30):
        step()
    print("ready", flush=True)
    for line in sys.stdin:
        print(json.dumps(dict(name=name, **run(step, *map(float, line.split())))), flush=True)


if __name__ == "__main__":
    main()
