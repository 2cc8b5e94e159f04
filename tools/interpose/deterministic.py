"""Unmodified programs for the checks of suspension. The output of the first two is the same in every run.

    deterministic.py train [STEPS] [GIB]    a small convolutional network, next to GIB GiB that it only keeps
    deterministic.py generate [TEXTS]       a language model of 1.1 B parameters, 64 tokens a text, by a CUDA graph
    deterministic.py serve [SECONDS] [GIB]  100 requests a second of a small network, next to GIB GiB that it only keeps

Prints "ready" to standard error when the device is in use, and a digest of all results at the end. `serve` prints the
seconds of its allocation, and the times of a request, in milliseconds.
"""
import hashlib
import os
import sys
import time

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
import torch

torch.manual_seed(1)
torch.use_deterministic_algorithms(True)
torch.backends.cudnn.benchmark = False
digest = hashlib.sha256()


def ready():
    torch.cuda.synchronize()
    print("ready", file=sys.stderr, flush=True)


def train(steps=3000, gib=4):
    layers = torch.nn
    network = layers.Sequential(
        layers.Conv2d(3, 64, 3, padding=1), layers.ReLU(), layers.Conv2d(64, 64, 3, padding=1), layers.ReLU(),
        layers.Flatten(), layers.Linear(64 * 32 * 32, 1000)).cuda()
    kept = torch.arange(gib << 28, dtype=torch.int32, device="cuda")
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3)
    images = torch.randn(64, 3, 32, 32, device="cuda")
    classes = torch.randint(0, 1000, (64,), device="cuda")
    for step in range(steps):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(network(images), classes)
        loss.backward()
        optimizer.step()
        if step % 20 == 0:
            digest.update(loss.detach().cpu().numpy().tobytes())
        if step == 20:
            ready()
    for parameter in network.parameters():
        digest.update(parameter.detach().cpu().numpy().tobytes())
    for part in kept.split(1 << 26):  # each value counts with its place
        weights = torch.arange(part.numel(), device="cuda") % 8191
        digest.update(str((part * weights).sum().item()).encode())


def generate(texts=60):
    from transformers import LlamaConfig, LlamaForCausalLM, StaticCache

    config = LlamaConfig(hidden_size=2048, intermediate_size=5632, num_hidden_layers=22, num_attention_heads=32,
                         num_key_value_heads=4, vocab_size=32000, max_position_embeddings=512)
    model = LlamaForCausalLM(config).to("cuda", torch.bfloat16).eval()
    cache = StaticCache(config=config, max_batch_size=1, max_cache_len=256, device="cuda", dtype=torch.bfloat16)
    token = torch.zeros(1, 1, dtype=torch.long, device="cuda")
    place = torch.zeros(1, dtype=torch.long, device="cuda")

    def next_token():
        logits = model(token, past_key_values=cache, cache_position=place, position_ids=place[None], use_cache=True).logits
        return logits[:, -1].argmax(-1)

    side = torch.cuda.Stream()
    with torch.no_grad():
        with torch.cuda.stream(side):
            for _ in range(3):
                next_token()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            following = next_token()
        ready()
        for text in range(texts):
            cache.reset()
            token[0, 0], place[0] = text, 0
            for _ in range(64):
                graph.replay()
                token[0, 0] = following[0]
                place[0] += 1
                digest.update(str(following.item()).encode())


def serve(seconds=5, gib=8):
    torch.cuda.init()
    begin = time.monotonic()
    kept = [torch.empty(1 << 30, dtype=torch.uint8, device="cuda") for _ in range(gib)]
    allocation = time.monotonic() - begin
    layers = [torch.nn.Linear(2048, 2048).cuda() for _ in range(8)]
    network, row = torch.nn.Sequential(*layers), torch.randn(16, 2048, device="cuda")
    with torch.no_grad():
        for _ in range(50):
            network(row)
        ready()
        times, due, end = [], time.monotonic(), time.monotonic() + seconds
        while due < end:
            time.sleep(max(0, due - time.monotonic()))
            begin = time.monotonic()
            network(row).sum().item()
            times.append(1e3 * (time.monotonic() - begin))
            due += 0.01
    times.sort()
    part = lambda share: times[int(share * (len(times) - 1))]
    print(f"serve: {len(kept)} GiB in {allocation:.2f} s; p50 {part(0.5):.3f} ms, p99 {part(0.99):.3f} ms of {len(times)}")


{"train": train, "generate": generate, "serve": serve}[sys.argv[1]](*map(int, sys.argv[2:]))
if sys.argv[1] != "serve":
    print("digest", digest.hexdigest())
