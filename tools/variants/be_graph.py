#!/usr/bin/env python3
"""A best-effort program for tools/variants/processes.py: the products of be_triton.py, most of them in a CUDA graph.

    be_graph.py LAUNCHES SECONDS        LAUNCHES of 0: as many as fit into SECONDS

The first third of the launches are warm-ups outside of the graph, in which the library measures the kernel while real-time work
is there. Then one is captured, and the graph is launched for all others. Prints a sum over the bits of the results at its end.
"""

import sys

import torch
from be_triton import product, run

WARM_UPS = 1 / 3  # of the run


def capture(once):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        once()
    return graph


def main():
    once, c = product()
    graph = None

    def launch(part):
        nonlocal graph
        if part < WARM_UPS:
            return once()
        if graph is None:
            graph = capture(once)
        graph.replay()

    run(int(sys.argv[1]), float(sys.argv[2]), c, launch)


if __name__ == "__main__":
    main()
