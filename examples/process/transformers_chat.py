"""A language model of the transformers library behind the daemon: static cache, and a CUDA graph for each token.

The model is made from sizes, with random weights, so that nothing is downloaded: its text is noise. It has about 1.1 B
parameters; `--tiny` is one of two layers, for a CPU. The class of a request is the daemon's, here a process for each:

    # models/chat/model.toml; models/chat/1 is an empty folder
    engine = "process"
    instances = { rt = 1, be = 1 }

    [process]
    command = ["/opt/venv/bin/python3", "/opt/examples/process/transformers_chat.py", "--context", "2048"]
    env = { PYTHONPATH = "/opt/reef-python" }  # if the package is not installed there
    memory = "16GiB"  # with a limit, the daemon starts it by `reef exec` with its class

    curl -sN -H 'content-type: application/json' http://127.0.0.1:8000/v1/chat/completions -d '{
      "model": "chat", "messages": [{"role": "user", "content": "What is a gate?"}], "stream": true, "max_tokens": 64}'

It needs static_decoder.py and byte_text.py next to it, PyTorch and `pip install transformers`. For a model of yours,
replace the model of static_decoder.py by one of `from_pretrained`, and the tokenizer and template by its own.

`--loop SECONDS` runs without a daemon: it decodes texts, and prints the latency of a token.
"""

import argparse
import itertools
import json
import random
import time
from types import SimpleNamespace

import reef.serve
from byte_text import END, ByteTokenizer, chat_template, choose

SIZES = {"layers": 22, "hidden": 2048, "intermediate": 5632, "heads": 16, "context": 1024}
TINY = {"layers": 2, "hidden": 64, "intermediate": 128, "heads": 2, "context": 256}
# Random weights make noise: of bytes that can be printed, so that each token is a piece of the text.
CHOSEN = [*range(ord(" "), ord("~") + 1), END]


class Chat(reef.serve.TextModel):
    parameters = ["seed", "temperature", "top_p"]

    def __init__(self, sizes):
        self.sizes, self.tokenizer = sizes, ByteTokenizer()
        self.max_tokens = sizes["context"] // 2

    def load(self, device):
        import static_decoder  # if PyTorch is missing, the daemon's error says so

        self.decoder = static_decoder.Decoder(self.sizes, END + 1, device)

    def chat_prompt(self, messages):
        return chat_template(messages)

    def generate(self, request):
        tokens = [END, *self.tokenizer.encode(request.prompt)]  # a text begins where another ended
        request.prompt_tokens = len(tokens)
        most = self.sizes["context"] - request.max_tokens
        if len(tokens) > most:
            raise reef.serve.InvalidRequest(f"prompt: must have at most {most} tokens, got {len(tokens)}")
        chance = random.Random(request.seed)
        scores = self.decoder.read(tokens)
        while (token := choose({token: scores[token] for token in CHOSEN}, request, chance)) != END:
            yield self.tokenizer.decode([token])
            scores = self.decoder.step(token)


def loop(chat, seconds):
    """Decodes texts as requests of a daemon would have them, with a pause after each."""
    import torch

    chat.load("cuda:0" if torch.cuda.is_available() else "cpu:0")
    request, times = SimpleNamespace(prompt="a" * 64, max_tokens=64, seed=0, temperature=1.0, top_p=None), []
    print("ready", flush=True)
    until = time.monotonic() + seconds
    while not times or time.monotonic() < until:
        request.seed += 1
        made = chat.generate(request)
        moments = [time.monotonic() for _ in itertools.islice(made, request.max_tokens)]
        made.close()
        times += [1e3 * (after - before) for before, after in zip(moments, moments[1:])]
        time.sleep(0.05)
    times.sort()
    p50, p99 = (times[int(part * len(times))] for part in (0.5, 0.99))
    print(json.dumps({"p50_ms": round(p50, 3), "p99_ms": round(p99, 3), "tokens": len(times)}), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, size in SIZES.items():
        parser.add_argument(f"--{name}", type=int, metavar="N", help=f"[{size}]")
    parser.add_argument("--tiny", action="store_true", help="other defaults, for a CPU")
    parser.add_argument("--loop", type=float, metavar="SECONDS", help="decode without a daemon")
    args = parser.parse_args()
    sizes = {name: getattr(args, name) or size for name, size in (TINY if args.tiny else SIZES).items()}
    if min(sizes.values()) < 1 or sizes["context"] < 2 or sizes["hidden"] % sizes["heads"]:
        parser.error(f"sizes must be positive, with a context from 2 and heads that divide hidden, got {sizes}")
    chat = Chat(sizes)
    if args.loop is None:
        reef.serve.run(chat)
    else:
        loop(chat, args.loop)


if __name__ == "__main__":
    main()
