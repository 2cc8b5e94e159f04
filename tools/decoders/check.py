#!/usr/bin/env python3
"""A small Llama: its greedy tokens as a sequence of a daemon, next to transformers' own, and the time of one step.

    tools/decoders/check.py REEF FOLDER [LAYERS]     # REEF: the program; FOLDER: empty, for the model and logs

Wants torch, transformers and onnx. Makes a model with seeded weights, lets transformers generate TOKENS tokens greedily,
and compares those of `reef serve` on the CPU device and, if there is a GPU, on it (fp32, then fp16). There one step is
timed in turns: the daemon's, by its client and by the daemon's statistics, and PyTorch's in a CUDA graph with a static
cache, copies of the token and of its position included. Then its steps, which are real-time requests, are timed next to
clients that ask for ResNet-152 at best effort without a pause. Ends with 1 if tokens in fp32 differ.
"""

import contextlib
import http.client
import json
import multiprocessing
import socket
import statistics
import subprocess
import sys
import time
from pathlib import Path

import graph

ROWS, PROMPT, TOKENS = 128, 8, 64
TURNS, STEPS, WARM = 3, 300, 50
NEIGHBOURS, ALONE = 4, 2.0  # clients of ResNet-152, and seconds for which they are alone
START = 120  # seconds until a daemon is ready
CONFIG = """[models]
builtin = true
[rights."address 127.0.0.1"]
rt = true
"""
BEGAN = time.monotonic()


def say(*text):
    print(f"[{time.monotonic() - BEGAN:5.1f} s]", *text, flush=True)


def made_model(layers):
    """The model, and the tokens of its prompt."""
    import torch
    import transformers

    torch.manual_seed(17)
    config = transformers.LlamaConfig(
        vocab_size=8192,
        hidden_size=512,
        intermediate_size=1408,
        num_hidden_layers=layers,
        num_attention_heads=8,
        num_key_value_heads=4,
        max_position_embeddings=ROWS,
        initializer_range=0.06,  # so that tokens differ
        tie_word_embeddings=False,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=None,
    )
    model = transformers.LlamaForCausalLM(config).eval()
    prompt = torch.randint(0, config.vocab_size, (1, PROMPT))
    return model, prompt


def own_tokens(model, prompt):
    """The tokens that transformers generates."""
    import torch

    with torch.no_grad():
        made = model.generate(prompt, attention_mask=torch.ones_like(prompt), do_sample=False, max_new_tokens=TOKENS)
    made = made[0, prompt.shape[1] :].tolist()
    assert len(made) == TOKENS, f"{len(made)} tokens"
    return made


class Daemon:
    """A daemon with the model, and a connection that stays open."""

    def __init__(self, reef, folder, device):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = free.getsockname()
        config, self.log = folder / "reef.toml", folder / f"daemon-{device.split(':')[0]}.log"
        config.write_text(CONFIG)
        command = [reef, "serve", "--config", config, "--socket-dir", folder / "sockets", "--repository", folder / "models"]
        models = "decoder" if device == "cpu" else "decoder,resnet152"
        command += ["--load", models, "--device", device, "--http", "{}:{}".format(*self.address)]
        self.error = open(self.log, "w")
        self.process = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=self.error, text=True)
        for line in self.process.stdout:
            if line == "ready\n":
                break
        else:
            raise SystemExit(f"no daemon on {device}: {self.log.read_text()[-2000:]}")
        self.connection = http.client.HTTPConnection(*self.address, timeout=START)
        self.connection.connect()
        self.connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask(self, path, body=None):
        method, data = ("POST", json.dumps(body)) if body else ("GET", None)
        self.connection.request(method, path, data, {"content-type": "application/json", "reef-class": "rt"})
        answer = self.connection.getresponse()
        said = answer.read()
        if answer.status != 200:
            raise SystemExit(f"{path}: {answer.status} {said.decode()}\n{self.log.read_text()[-2000:]}")
        return json.loads(said)

    def step(self, sequence, position, token):
        """The token after this one."""
        tensor = lambda name, value: {"name": name, "datatype": "INT64", "shape": [1], "data": [value]}
        parameters = {"sequence_id": sequence, "sequence_start": position == 0, "sequence_end": False}
        body = {"parameters": parameters, "inputs": [tensor("ids", token), tensor("position", position)]}
        return self.ask("/v2/models/decoder/infer", body)["outputs"][0]["data"][0]

    def device_time(self):
        """Requests so far, and seconds that they took on the device."""
        stats = self.ask("/v2/models/decoder/stats")["model_stats"][0]["inference_stats"]["compute_infer"]
        return int(stats["count"]), int(stats["ns"]) / 1e9

    def end(self):
        self.connection.close()
        self.process.terminate()
        self.process.wait()
        self.error.close()


def tokens_of(step, prompt):
    """The tokens after a prompt, of a function of a position and a token."""
    made = list(prompt)
    for position in range(len(prompt) + TOKENS - 1):
        token = step(position, made[position])
        if position + 1 >= len(prompt):
            made.append(token)
    return made[len(prompt) :]


def compared(name, found, wanted):
    same = next((at for at, pair in enumerate(zip(found, wanted)) if pair[0] != pair[1]), len(wanted))
    say(f"{name}: {same} of {len(wanted)} tokens are transformers'" + ("" if same == len(wanted) else f": {found[same:][:4]}"))
    return same == len(wanted)


class Captured:
    """One step in a CUDA graph, with a static cache."""

    def __init__(self, weights, sizes, kind):
        import torch

        self.weights = {name: tensor.detach().to("cuda", kind) for name, tensor in weights.items()}
        self.sizes, self.kind = sizes, kind
        self.cosines, self.sines = (torch.tensor(table, device="cuda", dtype=kind) for table in sizes.rotations())
        self.columns = torch.arange(sizes.rows, device="cuda")
        shape = (1, sizes.groups, sizes.rows, sizes.head)
        self.caches = [[torch.zeros(shape, device="cuda", dtype=kind) for _ in range(2)] for _ in range(sizes.layers)]
        self.given = torch.zeros(2, dtype=torch.int64, device="cuda")
        self.host = torch.zeros(2, dtype=torch.int64).pin_memory()
        self.answer = torch.zeros(1, dtype=torch.int64).pin_memory()
        self.graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
        with torch.no_grad(), torch.cuda.stream(stream):
            for _ in range(3):
                self.run()
            with torch.cuda.graph(self.graph, stream=stream):
                self.token = self.run()
        torch.cuda.synchronize()

    def norm(self, x, name):
        import torch

        return torch.nn.functional.rms_norm(x, x.shape[-1:], self.weights[f"{name}.weight"], self.sizes.epsilon)

    def product(self, x, name):
        import torch

        return torch.nn.functional.linear(x, self.weights[f"{name}.weight"])

    def rotated(self, x):
        import torch

        first, second = x.chunk(2, -1)
        return x * self.cosine + torch.cat([-second, first], -1) * self.sine

    def run(self):
        import torch

        s, functional = self.sizes, torch.nn.functional
        ids, position = self.given[:1], self.given[1:]
        self.cosine, self.sine = self.cosines[position], self.sines[position]
        is_seen = (self.columns <= position).view(1, 1, 1, -1)
        x = self.weights["model.embed_tokens.weight"][ids]
        for k, (keys, values) in enumerate(self.caches):
            layer = f"model.layers.{k}"
            normed = self.norm(x, f"{layer}.input_layernorm")
            query, key, value = (self.product(normed, f"{layer}.self_attn.{name}_proj") for name in "qkv")
            query = self.rotated(query.view(1, s.groups, s.heads // s.groups, s.head))
            keys.index_copy_(2, position, self.rotated(key.view(1, s.groups, 1, s.head)))
            values.index_copy_(2, position, value.view(1, s.groups, 1, s.head))
            mixed = functional.scaled_dot_product_attention(query, keys, values, attn_mask=is_seen)
            x = x + self.product(mixed.reshape(1, s.width), f"{layer}.self_attn.o_proj")
            normed = self.norm(x, f"{layer}.post_attention_layernorm")
            gate, up = (self.product(normed, f"{layer}.mlp.{name}_proj") for name in ("gate", "up"))
            x = x + self.product(functional.silu(gate) * up, f"{layer}.mlp.down_proj")
        return self.product(self.norm(x, "model.norm"), "lm_head").argmax(-1)

    def step(self, position, token):
        import torch

        self.host[0], self.host[1] = token, position
        self.given.copy_(self.host, non_blocking=True)
        self.graph.replay()
        self.answer.copy_(self.token, non_blocking=True)
        torch.cuda.synchronize()
        return self.answer.item()


def timed(step):
    """Milliseconds of steps that follow each other, after some to warm up."""
    times = []
    for k in range(WARM + STEPS):
        begin = time.perf_counter()
        step(k % ROWS, k % 97)
        times.append(1000 * (time.perf_counter() - begin))
    return times[WARM:]


def row(name, times, more=""):
    ordered = sorted(times)
    p50, p99 = statistics.median(ordered), ordered[int(0.99 * len(ordered))]
    print(f"| {name} | {p50:.3f} | {p99:.3f} | {len(ordered)} | {more} |", flush=True)


def neighbour(address, begun, answers):
    """Asks for ResNet-152 at best effort, one request after the other, until it is killed."""
    values = bytes(4 * 3 * 224 * 224)
    described = {"name": "input", "datatype": "FP32", "shape": [1, 3, 224, 224]}
    head = {"inputs": [{**described, "parameters": {"binary_data_size": len(values)}}]}
    head = json.dumps(head).encode()
    headers = {"inference-header-content-length": str(len(head)), "content-type": "application/octet-stream"}
    connection = http.client.HTTPConnection(*address, timeout=START)
    connection.connect()
    connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    while True:
        connection.request("POST", "/v2/models/resnet152/infer", head + values, headers)
        answer = connection.getresponse()
        said = answer.read()
        if answer.status != 200:
            raise SystemExit(f"resnet152: {answer.status} {said[:500]}")
        with answers.get_lock():
            answers.value += 1
        begun.set()


def time_next_to_others(daemon, precision):
    """Steps next to clients at best effort, and how much of their own speed these keep."""
    spawn = multiprocessing.get_context("spawn")
    begun, answers = spawn.Event(), spawn.Value("q", 0)
    clients = [spawn.Process(target=neighbour, args=(daemon.address, begun, answers), daemon=True) for _ in range(NEIGHBOURS)]
    for client in clients:
        client.start()
    if not begun.wait(START):
        raise SystemExit("no answer of resnet152")

    def speed(run):
        before, begin = answers.value, time.perf_counter()
        run()
        return (answers.value - before) / (time.perf_counter() - begin)

    times = []
    alone = speed(lambda: time.sleep(ALONE))
    both = speed(lambda: times.extend(timed(lambda position, token: daemon.step("next-to", position, token))))
    for client in clients:
        client.kill()
        client.join()
    print(f"\n| step, {precision}, real-time | p50, ms | p99, ms | steps | ResNet-152, requests a second |\n|---|--:|--:|--:|--:|")
    row(f"next to {NEIGHBOURS} clients of ResNet-152", times, f"{both:.0f}; without the decoder {alone:.0f}")
    print(flush=True)


def time_steps(daemon, weights, sizes, precision):
    import torch

    kind = torch.float16 if precision == "fp16" else torch.float32
    captured, ours, theirs = Captured(weights, sizes, kind), [], []
    count, spent = daemon.device_time()
    for turn in range(TURNS):
        ours += timed(lambda position, token: daemon.step(f"timed-{turn}", position, token))
        theirs += timed(captured.step)
    more, all_spent = daemon.device_time()
    on_device = 1000 * (all_spent - spent) / max(1, more - count)
    print(f"\n| step, {precision} | p50, ms | p99, ms | steps | mean by its own clock, ms |\n|---|--:|--:|--:|--:|")
    row("reef serve, by an HTTP client", ours, f"{on_device:.3f}")
    row("PyTorch, CUDA graph, static cache", theirs)
    print(flush=True)
    return captured


def main(reef, folder, layers):
    folder.mkdir(parents=True, exist_ok=True)
    model, prompt = made_model(layers)
    sizes = graph.Sizes(model.config, ROWS)
    weights = model.state_dict()
    say(f"{sum(array.numel() for array in weights.values()) / 1e6:.1f} M parameters, {sizes.layers} layers")
    wanted, prompt = own_tokens(model, prompt), prompt[0].tolist()
    say(f"transformers: {wanted[:8]} …, {len(set(wanted))} different ones of {len(wanted)}")
    version = folder / "models/decoder/1"
    version.mkdir(parents=True, exist_ok=True)
    (version / "model.onnx").write_bytes(graph.step_file(sizes, {name: array.numpy() for name, array in weights.items()}))
    (version.parent / "model.toml").write_text(graph.description(sizes))
    say("exported")
    import torch

    devices = ["cpu"] + ["cuda:0?precision=fp32", "cuda:0?precision=fp16"] * torch.cuda.is_available()
    are_right = []
    for device in devices:
        with contextlib.ExitStack() as ends:
            daemon = Daemon(reef, folder, device)
            ends.callback(daemon.end)
            say(f"{device}: ready")
            found = tokens_of(lambda position, token: daemon.step("text", position, token), prompt)
            is_right = compared(device, found, wanted)
            if not device.endswith("fp16"):
                are_right.append(is_right)
            if device != "cpu":
                precision = device[-4:]
                captured = time_steps(daemon, weights, sizes, precision)
                time_next_to_others(daemon, precision)
                found = tokens_of(captured.step, prompt)
                compared(f"PyTorch's graph, {precision}", found, wanted)
    return 0 if all(are_right) else 1


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        raise SystemExit(__doc__)
    raise SystemExit(main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) == 4 else 6))
