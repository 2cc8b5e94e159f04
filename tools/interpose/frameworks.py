"""Small programs of frameworks other than plain PyTorch; each prints a digest of what it computed.

frameworks.py cupy|numba|triton|jax|compile|workers [ROUNDS]
"""
import hashlib
import json
import sys
import warnings

import numpy as np

warnings.filterwarnings("ignore")
what = sys.argv[1]
rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 300
kernels = 100 * rounds  # of programs that do nothing but launch them
start = np.arange(1 << 16, dtype=np.float32) / (1 << 16)


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


def jax():
    import jax

    step = jax.jit(lambda x: 3 * x * (1 - x) + 0.001 * (x @ x) / 256)
    x = jax.numpy.asarray(start.reshape(256, 256))
    for _ in range(rounds):
        x = step(x)
    return np.asarray(x)


def compiled():
    import torch

    torch.manual_seed(5)
    net = torch.nn.Sequential(*[torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.GELU()) for _ in range(4)])
    net = torch.compile(net.cuda(), mode="reduce-overhead")
    x = torch.from_numpy(start.reshape(256, 256)).cuda()
    with torch.no_grad():
        for _ in range(rounds):
            y = net(x)
    return y.cpu().numpy()


def workers():
    """A training loop with workers that are forked from a process which has a context already."""
    import torch

    torch.manual_seed(5)
    data = torch.utils.data.TensorDataset(torch.from_numpy(start.reshape(-1, 64)))
    net = torch.nn.Linear(64, 64).cuda()
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-2)
    for _ in range(2):
        for (x,) in torch.utils.data.DataLoader(data, batch_size=32, num_workers=2):
            optimizer.zero_grad()
            net(x.cuda()).square().mean().backward()
            optimizer.step()
    return net.weight.detach().cpu().numpy()


programs = {"cupy": cupy, "numba": numba, "triton": triton, "jax": jax, "compile": compiled, "workers": workers}
result = np.ascontiguousarray(programs[what]())
digest = hashlib.sha256(result.tobytes()).hexdigest()[:16]
print(json.dumps({"program": what, "digest": digest, "finite": bool(np.isfinite(result).all())}), flush=True)
