"""A server: a language model of the transformers library answers a request at a fixed interval.

serve.py [--every MS] [--tokens N] [--small]

The model is made from a configuration, with random weights: about 1.1 B parameters, a static cache,
and on a GPU a CUDA graph for each token. `--small` is a model of two layers, for a CPU.

Writes "ready" once it is warm. Then it writes a line for each request, until it is terminated:
"request BEGIN LATENCY" in seconds. BEGIN is when the request came, on the clock of time.monotonic();
a request that waits for the one before has waited as long as its client would have.

Nothing here knows of REEF: `reef exec --class rt -- python serve.py` runs it as it is.
"""

import argparse
import signal
import sys
import time

import torch
import transformers

LARGE = dict(num_hidden_layers=22, hidden_size=2048, intermediate_size=5632, num_attention_heads=16, vocab_size=32000)
SMALL = dict(num_hidden_layers=2, hidden_size=64, intermediate_size=128, num_attention_heads=2, vocab_size=100)
WARM_UP = 5


class Decoder:
    """Decodes one token after the other into a cache of a fixed size."""

    def __init__(self, sizes, room, device):
        self.device = device
        config = transformers.LlamaConfig(**sizes, max_position_embeddings=room, attn_implementation="sdpa")
        torch.set_default_dtype(torch.float32 if device == "cpu" else torch.bfloat16)
        with torch.device(device):
            self.model = transformers.LlamaForCausalLM(config).eval()
            self.token = torch.zeros(1, 1, dtype=torch.long)
            self.at = torch.zeros(1, dtype=torch.long)
            self.places = torch.arange(room)
        self.cache = transformers.StaticCache(
            config=config, max_batch_size=1, max_cache_len=room, device=device, dtype=torch.get_default_dtype()
        )
        self.graph = None

    def step(self):
        """Decodes a token. All that changes stays where it is, so that a graph can repeat this."""
        found = self.model(
            input_ids=self.token,
            attention_mask=(self.places <= self.at)[None, None, None],
            position_ids=self.at[None],
            cache_position=self.at,
            past_key_values=self.cache,
            use_cache=True,
        )
        self.token.copy_(found.logits[:, -1:].argmax(-1))
        self.at.add_(1)

    def capture(self):
        """Captures the step. It runs on another stream before, as PyTorch asks for."""
        torch.cuda.synchronize()
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            for _ in range(3):
                self.step()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.step()
        self.graph = graph

    def answer(self, tokens):
        """Decodes a number of tokens from an empty cache; returns the last one."""
        self.cache.reset()
        self.at.zero_()
        for _ in range(tokens):
            self.graph.replay() if self.graph else self.step()
        return self.token.item()  # waits for the device


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--every", type=float, default=50, metavar="MS", help="time between two requests [50]")
    parser.add_argument("--tokens", type=int, default=8, help="tokens of an answer [8]")
    parser.add_argument("--small", action="store_true", help="a small model")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    torch.manual_seed(1)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    with torch.inference_mode():
        decoder = Decoder(SMALL if args.small else LARGE, args.tokens + 8, device)
        decoder.answer(args.tokens)
        if device == "cuda":
            decoder.cache.reset()
            decoder.at.zero_()
            decoder.capture()
        for _ in range(WARM_UP):
            decoder.answer(args.tokens)
        print("ready", flush=True)
        due = time.monotonic()
        while True:
            time.sleep(max(0, due - time.monotonic()))
            decoder.answer(args.tokens)
            print(f"request {due:.6f} {time.monotonic() - due:.6f}", flush=True)
            due += args.every / 1e3


if __name__ == "__main__":
    main()
