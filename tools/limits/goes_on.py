"""PyTorch programs that fit a limit and must go on: reef exec --memory 6GiB -- python3 goes_on.py CASE"""

import os
import sys

ASYNC = "cudaMallocAsync"
CASES = {"native": "", "async": f"backend:{ASYNC}", "segments": "expandable_segments:True"}
MIB = 1 << 20


def train(torch, steps):
    """A small training, whose activations come and go."""
    net = torch.nn.Sequential(*[torch.nn.Sequential(torch.nn.Linear(2048, 2048), torch.nn.GELU()) for _ in range(16)]).cuda()
    best = torch.optim.Adam(net.parameters())
    for step in range(steps):
        batch = torch.randn(4096 + 512 * (step % 5), 2048, device="cuda")
        loss = net(batch).square().mean()
        best.zero_grad(set_to_none=True)
        loss.backward()
        best.step()
    return loss.item()


def graphs(torch, count):
    """Graphs with pools of their own, launched in turn, as servers have one for each size of a batch."""
    net = torch.nn.Sequential(*[torch.nn.Linear(2048, 2048) for _ in range(8)]).cuda().eval()
    made, pool = [], torch.cuda.graph_pool_handle()
    with torch.no_grad():
        for at in range(count):
            batch = torch.randn(256 * (1 + at), 2048, device="cuda")
            net(batch)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=pool):
                out = net(batch)
            made.append((graph, batch, out))
    for _ in range(20):
        for graph, _, _ in made:
            graph.replay()
    torch.cuda.synchronize()
    return sum(float(out.sum()) for _, _, out in made)


def fill(torch):
    """Memory until it is refused, freed, and taken again in other sizes."""
    sizes = []
    for piece in (256, 96, 33):
        held = []
        try:
            while True:
                held.append(torch.empty(piece * MIB, dtype=torch.uint8, device="cuda"))
        except torch.cuda.OutOfMemoryError:
            sizes.append(piece * len(held))
        del held
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
    return sizes


def main():
    case = sys.argv[1]
    os.environ["PYTORCH_CUDA_ALLOC_CONF"] = os.environ["PYTORCH_ALLOC_CONF"] = CASES[case]
    import torch

    torch.manual_seed(0)
    loss, sums, sizes = train(torch, 40), graphs(torch, 8), fill(torch)
    free, total = torch.cuda.mem_get_info()
    print(f"{case}: loss {loss:.6f}, sums {sums:.3f}, filled {sizes} MiB of {total // MIB}, free {free // MIB}")
    if min(sizes) < 0.8 * total / MIB - 1024:
        sys.exit(f"{case}: refused far below the limit")


main()
