#!/usr/bin/env python3
"""Small programs of frameworks other than plain PyTorch; each prints a digest of what it computed.

frameworks.py PROGRAM [ROUNDS]; without arguments it lists the programs. One that can't run here says so and ends with 77.
"""
import hashlib
import json
import os
import sys
import warnings

import numpy as np

warnings.filterwarnings("ignore")
what = sys.argv[1] if len(sys.argv) > 1 else ""
rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 300
kernels = 100 * rounds  # of programs that do nothing but launch them
start = np.arange(1 << 16, dtype=np.float32) / (1 << 16)


def skip(why):
    print(json.dumps({"program": what, "skipped": why}), flush=True)
    sys.exit(77)


def cupy():
    import cupy

    kernel = cupy.ElementwiseKernel("float32 x", "float32 y", "y = 3 * x * (1 - x)", "logistic")
    streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(2)]
    out = []
    for stream in streams:
        with stream:
            x = cupy.asarray(start)
            for _ in range(kernels):
                x = kernel(x)
            out.append(x)
    for stream in streams:
        stream.synchronize()
    return sum(cupy.asnumpy(x) for x in out)


def numba():
    np.row_stack = np.vstack  # older versions of numba want what newer ones of numpy don't have
    from numba import cuda

    @cuda.jit
    def logistic(x):
        i = cuda.grid(1)
        if i < x.size:
            x[i] = np.float32(3) * x[i] * (np.float32(1) - x[i])

    x = cuda.to_device(start)
    for _ in range(kernels):
        logistic[start.size // 256, 256](x)
    return x.copy_to_host()


def triton():
    import torch
    import triton
    import triton.language as tl

    global logistic

    @triton.jit
    def logistic(x, n, BLOCK: tl.constexpr):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        value = tl.load(x + at, mask=at < n)
        tl.store(x + at, 3 * value * (1 - value), mask=at < n)

    x = torch.from_numpy(start).cuda()
    for _ in range(kernels):
        logistic[(start.size // 1024,)](x, start.size, BLOCK=1024)
    return x.cpu().numpy()


def triton_kinds():
    """Kernels as Triton's users write them: a sum, a softmax by rows, a product of matrices, dropout, a normalisation."""
    import torch
    import triton
    import triton.language as tl

    global added, softmax, product, dropped, normal

    @triton.jit
    def added(x, y, out, n, BLOCK: tl.constexpr):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        here = at < n
        tl.store(out + at, tl.load(x + at, mask=here) + tl.load(y + at, mask=here), mask=here)

    @triton.jit
    def softmax(x, out, columns, BLOCK: tl.constexpr):
        at = tl.arange(0, BLOCK)
        row = tl.load(x + tl.program_id(0) * columns + at, mask=at < columns, other=-float("inf"))
        part = tl.exp(row - tl.max(row, axis=0))
        tl.store(out + tl.program_id(0) * columns + at, part / tl.sum(part, axis=0), mask=at < columns)

    @triton.jit
    def product(a, b, out, n, TILE: tl.constexpr):
        rows = tl.program_id(0) * TILE + tl.arange(0, TILE)
        columns = tl.program_id(1) * TILE + tl.arange(0, TILE)
        sums = tl.zeros((TILE, TILE), dtype=tl.float32)
        for first in range(0, n, TILE):
            terms = first + tl.arange(0, TILE)
            sums += tl.dot(tl.load(a + rows[:, None] * n + terms[None, :]), tl.load(b + terms[:, None] * n + columns[None, :]))
        tl.store(out + rows[:, None] * n + columns[None, :], sums)

    @triton.jit
    def dropped(x, out, n, part, seed, BLOCK: tl.constexpr):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        value = tl.load(x + at, mask=at < n)
        tl.store(out + at, tl.where(tl.rand(seed, at) > part, value / (1 - part), 0.0), mask=at < n)

    @triton.jit
    def normal(x, out, columns, epsilon, BLOCK: tl.constexpr):
        at = tl.arange(0, BLOCK)
        row = tl.load(x + tl.program_id(0) * columns + at, mask=at < columns, other=0.0)
        off = tl.where(at < columns, row - tl.sum(row, axis=0) / columns, 0.0)
        scale = 1 / tl.sqrt(tl.sum(off * off, axis=0) / columns + epsilon)
        tl.store(out + tl.program_id(0) * columns + at, off * scale, mask=at < columns)

    n = 256
    x = torch.from_numpy(start.reshape(n, n)).cuda()
    y, z = torch.empty_like(x), torch.empty_like(x)
    for round in range(10 * rounds):
        softmax[(n,)](x, y, n, BLOCK=n)
        product[(n // 64, n // 64)](y, x, z, n, TILE=64)
        dropped[(n * n // 1024,)](z, y, n * n, 0.1, round, BLOCK=1024)
        normal[(n,)](y, z, n, 1e-5, BLOCK=n)
        added[(n * n // 1024,)](z, x, y, n * n, BLOCK=1024)
        x = y * 0.5
    return x.cpu().numpy()


def jax():
    import jax

    step = jax.jit(lambda x: 3 * x * (1 - x) + 0.001 * (x @ x) / 256)
    x = jax.numpy.asarray(start.reshape(256, 256))
    for _ in range(rounds):
        x = step(x)
    return np.asarray(x)


def cooperative():
    """Blocks that wait for each other."""
    import cupy

    source = r"""
    #include <cooperative_groups.h>
    extern "C" __global__ void waves(float *x, float *y, int n) {
        auto grid = cooperative_groups::this_grid();
        for (int round = 0; round < 8; round++) {
            for (int at = grid.thread_rank(); at < n; at += grid.size()) {
                float mean = (x[at] + x[(at + 1) % n]) / 2;
                y[at] = 3 * mean * (1 - mean);
            }
            grid.sync();
            float *former = x; x = y; y = former;
        }
    }"""
    kernel = cupy.RawKernel(source, "waves", enable_cooperative_groups=True)
    units = cupy.cuda.Device().attributes["MultiProcessorCount"]
    x, y = cupy.asarray(start), cupy.empty_like(cupy.asarray(start))
    for _ in range(10 * rounds):
        kernel((units,), (256,), (x, y, np.int32(start.size)))
    return cupy.asnumpy(x)


def compiled(mode):
    import torch

    torch.manual_seed(5)
    net = torch.nn.Sequential(*[torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.GELU()) for _ in range(4)])
    net = torch.compile(net.cuda(), mode=mode)
    x = torch.from_numpy(start.reshape(256, 256)).cuda()
    with torch.no_grad():
        for _ in range(rounds):
            y = net(x)
    return y.cpu().numpy()


def workers(context):
    """A training loop whose workers are forked from a process which has a context already, or spawned."""
    import torch

    torch.manual_seed(5)
    data = torch.utils.data.TensorDataset(torch.from_numpy(start.reshape(-1, 64)))
    net = torch.nn.Linear(64, 64).cuda()
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-2)
    loading = {"batch_size": 32, "num_workers": 2, "multiprocessing_context": context, "pin_memory": True}
    for _ in range(2):
        for (x,) in torch.utils.data.DataLoader(data, **loading):
            optimizer.zero_grad()
            net(x.cuda(non_blocking=True)).square().mean().backward()
            optimizer.step()
    return net.weight.detach().cpu().numpy()


def allocator(setting):
    """Tensors of many sizes that come and go, so that memory is mapped, unmapped and used again."""
    os.environ["PYTORCH_CUDA_ALLOC_CONF"] = os.environ["PYTORCH_ALLOC_CONF"] = setting
    import torch

    x, kept = torch.from_numpy(start).cuda(), []
    for round in range(10 * rounds):
        sizes = (round * 7919 % 61 + 1, round * 104729 % 31 + 1)
        large = x.repeat(sizes[0]).reshape(sizes[0], -1)
        kept.append((large * (1 - large)).sum(0)[: 1024 * sizes[1]].clone())
        if len(kept) > 8:
            first = kept.pop(0)
            x = x * 0.5 + torch.nn.functional.pad(first, (0, x.numel() - first.numel())) / (4 * sizes[0])
        if round % 500 == 499:
            torch.cuda.empty_cache()
    return x.cpu().numpy()


def generate():
    """A small language model's `generate`, from a configuration with made-up weights."""
    try:
        import torch
        import transformers
    except ImportError as missing:
        skip(str(missing))
    torch.manual_seed(5)
    sizes = {"vocab_size": 1000, "n_positions": 512, "n_embd": 256, "n_layer": 8, "n_head": 8}
    config = transformers.GPT2Config(**sizes, bos_token_id=0, eos_token_id=None, pad_token_id=0)
    model = transformers.GPT2LMHeadModel(config).cuda().eval()
    prompt = torch.arange(1, 17, device="cuda").repeat(4, 1)
    with torch.no_grad():
        tokens = model.generate(prompt, max_new_tokens=min(rounds, 400), do_sample=False)
    return tokens.cpu().numpy()


def rank(number, to):
    """One of two processes that add up each other's numbers."""
    import torch
    import torch.distributed as peers

    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29517", RANK=str(number), WORLD_SIZE="2")
    torch.cuda.set_device(number)
    peers.init_process_group("nccl")
    x = torch.from_numpy(start).cuda() / (number + 1)
    for _ in range(10 * rounds):
        x = 3 * x * (1 - x)
        peers.all_reduce(x)
        x = x / 2
    peers.destroy_process_group()
    np.save(f"{to}.{number}.npy", x.cpu().numpy())


def nccl():
    import tempfile

    import torch

    if torch.cuda.device_count() < 2:
        skip("needs two GPUs")
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(rank, (f"{folder}/rank",), nprocs=2)
        return sum(np.load(f"{folder}/rank.{number}.npy") for number in range(2))


programs = {
    "cupy": cupy,
    "numba": numba,
    "triton": triton,
    "triton-kinds": triton_kinds,
    "jax": jax,
    "cooperative": cooperative,
    "compile": lambda: compiled("reduce-overhead"),
    "compile-default": lambda: compiled("default"),
    "workers": lambda: workers("fork"),
    "workers-spawn": lambda: workers("spawn"),
    "expandable": lambda: allocator("expandable_segments:True"),
    "malloc-async": lambda: allocator("backend:cudaMallocAsync"),
    "generate": generate,
    "nccl": nccl,
}
# Spawned workers import this file.
if __name__ == "__main__":
    if what not in programs:
        sys.exit(f"programs: {' '.join(programs)}")
    result = np.ascontiguousarray(programs[what]())
    if not np.isfinite(result).all():
        sys.exit("the result has values that are no finite numbers, so it shows little")
    digest = hashlib.sha256(result.tobytes()).hexdigest()[:16]
    print(json.dumps({"program": what, "digest": digest}), flush=True)
