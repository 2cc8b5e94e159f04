#!/usr/bin/env python3
"""A language model whose decode is real-time and whose prefill is not, next to training, on one GPU.

    tools/interpose/phases.py FOLDER [--seconds 12] [--json FILE]

FOLDER has `reef` (tools/gpu_build.sh) and libreef_cuda_shim.so (tools/interpose/build.sh); Python has torch and torchvision. The
weights are made up. A request has a prompt of 1,024 words for each of 8 sequences, and 32 words more, one after the other; the
next request follows at once. Training is ResNet-50, batch 64, and never pauses. Rows:

  alone        each program by itself, under REEF
  slices       both without REEF: the driver's time slices
  real-time    the server is real-time as a whole
  phases       the server is best-effort, and real-time in a phase around each word after the first
  best-effort  both are best-effort

Prints for each the 50th and 99th percentile of a word, the 50th of a prompt, and the training steps a second.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

PROMPT, WORDS, SEQUENCES = 1024, 32, 8


def await_go():
    """Both programs are measured at the same time: each waits for a line."""
    print("ready", file=sys.stderr, flush=True)
    sys.stdin.readline()


def serve(seconds):
    import ctypes

    import torch

    def symbol(name):
        try:
            return getattr(ctypes.CDLL("libcuda.so.1"), name)
        except (OSError, AttributeError):
            return lambda: 0

    with_phases = os.environ.get("PHASES") == "1"
    begin_phase, end_phase = symbol("reef_guest_begin_phase"), symbol("reef_guest_end_phase")
    width, heads, depth = 1024, 16, 24
    torch.manual_seed(1)
    make = lambda *shape: torch.randn(*shape, device="cuda", dtype=torch.half) * 0.02
    layers = [(make(width, 3 * width), make(width, width), make(width, 4 * width), make(4 * width, width)) for _ in range(depth)]
    cache = [torch.zeros(2, SEQUENCES, heads, PROMPT + WORDS, width // heads, device="cuda", dtype=torch.half) for _ in range(depth)]
    head = make(width, 32000)

    @torch.no_grad()
    def forward(x, at):
        for (qkv, out, up, down), kept in zip(layers, cache):
            q, k, v = (torch.nn.functional.layer_norm(x, (width,)) @ qkv).chunk(3, dim=-1)
            q, k, v = (part.view(SEQUENCES, -1, heads, width // heads).transpose(1, 2) for part in (q, k, v))
            kept[0, :, :, at:at + x.shape[1]], kept[1, :, :, at:at + x.shape[1]] = k, v
            until = at + x.shape[1]
            y = torch.nn.functional.scaled_dot_product_attention(q, kept[0, :, :, :until], kept[1, :, :, :until], is_causal=at == 0)
            x = x + y.transpose(1, 2).reshape(SEQUENCES, -1, width) @ out
            x = x + torch.nn.functional.gelu(torch.nn.functional.layer_norm(x, (width,)) @ up) @ down
        return (x[:, -1] @ head).argmax(-1)

    words, prompts, refused = [], [], 0
    prompt, one = make(SEQUENCES, PROMPT, width), make(SEQUENCES, 1, width)
    for warm in range(2):
        forward(prompt, 0)
        forward(one, PROMPT)
    torch.cuda.synchronize()
    await_go()
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        begin = time.perf_counter()
        forward(prompt, 0).cpu()
        prompts.append(time.perf_counter() - begin)
        code = begin_phase() if with_phases else 1
        refused += with_phases and code != 0
        for word in range(WORDS):
            begin = time.perf_counter()
            forward(one, PROMPT + word).cpu()
            words.append(time.perf_counter() - begin)
        if code == 0:
            end_phase()
    print(json.dumps({"words": words, "prompts": prompts, "refused": refused}))


def train(seconds):
    import torch
    import torchvision

    torch.manual_seed(1)
    model = torchvision.models.resnet50().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    x, y = torch.randn(64, 3, 224, 224, device="cuda"), torch.randint(0, 1000, (64,), device="cuda")

    def step():
        optimizer.zero_grad(set_to_none=True)
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()

    for _ in range(3):
        step()
    torch.cuda.synchronize()
    await_go()
    begin, steps = time.perf_counter(), 0
    while time.perf_counter() < begin + seconds:
        step()
        torch.cuda.synchronize()
        steps += 1
    print(json.dumps({"steps_per_s": steps / (time.perf_counter() - begin)}))


def start(command, environment=None):
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    program = subprocess.Popen(command, text=True, env=dict(os.environ, **(environment or {})), **pipes)
    for line in program.stderr:
        if line.strip() == "ready":
            return program
    raise SystemExit(f"{command}: ended before it was ready: {program.stdout.read()[-500:]}")


def end(program):
    out, err = program.communicate(timeout=120)
    if program.returncode:
        raise SystemExit(f"ended with {program.returncode}: {err[-600:]}")
    return json.loads(out.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--seconds", type=float, default=12)
    parser.add_argument("--json")
    options = parser.parse_args()
    reef, sockets = os.path.join(os.path.abspath(options.folder), "reef"), tempfile.mkdtemp()
    os.environ["REEF_SHIM"] = os.path.join(os.path.abspath(options.folder), "libreef_cuda_shim.so")
    place = ["--socket-dir", sockets]
    own = lambda what: [sys.executable, os.path.abspath(__file__), what, str(options.seconds)]
    guest = lambda kind, what: [reef, "exec", *place, "--class", kind, "--", *own(what)]
    daemon = subprocess.Popen([reef, "serve", "--guests", *place, "--log", "json"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(1.5)
    rows = []

    def row(name, server, trainer, phases="0"):
        training, serving = trainer and start(trainer), server and start(server, {"PHASES": phases})
        for program in filter(None, (training, serving)):
            program.stdin.write("go\n")
            program.stdin.flush()
        served, trained = serving and end(serving), training and end(training)
        at = lambda values, part: sorted(values)[int(len(values) * part)] * 1e3
        result = {"row": name}
        if served:
            result |= {"word_p50_ms": at(served["words"], 0.5), "word_p99_ms": at(served["words"], 0.99),
                       "prompt_p50_ms": at(served["prompts"], 0.5), "requests": len(served["prompts"]), "refused_phases": served["refused"]}
        if trained:
            result |= {"steps_per_s": trained["steps_per_s"]}
        rows.append(result)
        print(json.dumps(result), flush=True)

    try:
        row("server alone", guest("rt", "serve"), None)
        row("training alone", None, guest("be", "train"))
        row("slices", own("serve"), own("train"))
        row("real-time", guest("rt", "serve"), guest("be", "train"))
        row("phases", guest("be", "serve"), guest("be", "train"), "1")
        row("best-effort", guest("be", "serve"), guest("be", "train"))
    finally:
        daemon.terminate()
        daemon.wait(20)
    if options.json:
        import torch

        with open(options.json, "w") as file:
            json.dump({"bench": "phases", "command": "tools/interpose/phases.py FOLDER", "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
                       "device": {"name": torch.cuda.get_device_name(0)}, "rows": rows}, file, indent=1)


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] in ("serve", "train"):
        {"serve": serve, "train": train}[sys.argv[1]](float(sys.argv[2]))
    else:
        main()
