"""A causal language model of the transformers library, made from sizes: random weights, and a cache of a fixed size.

On a GPU one CUDA graph decodes a token; on a CPU the same step runs as it is. transformers_chat.py needs this file.
"""

import torch
import transformers


class Decoder:
    """Decodes one text, a token at a time."""

    @torch.inference_mode()
    def __init__(self, sizes, tokens, device):
        """`device` is the daemon's name of one, such as "cuda:0". Scores are for tokens from 0 to `tokens` - 1."""
        kind, _, number = device.partition(":")
        if kind != "cpu" and torch.cuda.is_available():
            self.device = torch.device("cuda", int(number or 0))
            torch.cuda.set_device(self.device)
        else:
            self.device = torch.device("cpu")
            print(f"device {device}: decodes on the CPU, without a CUDA graph", flush=True)
        dtype = torch.float32 if self.device.type == "cpu" else torch.bfloat16
        config = transformers.LlamaConfig(
            num_hidden_layers=sizes["layers"],
            hidden_size=sizes["hidden"],
            intermediate_size=sizes["intermediate"],
            num_attention_heads=sizes["heads"],
            vocab_size=-(-tokens // 64) * 64,
            max_position_embeddings=sizes["context"],
            attn_implementation="sdpa",
        )
        torch.manual_seed(1)
        torch.set_default_dtype(dtype)
        with self.device:
            self.model = transformers.LlamaForCausalLM(config).eval()
            self.token = torch.zeros(1, 1, dtype=torch.long)
            self.at = torch.zeros(1, dtype=torch.long)
            self.places = torch.arange(sizes["context"])
            self.scores = torch.zeros(tokens, dtype=torch.float32)
        self.cache = transformers.StaticCache(
            config=config, max_batch_size=1, max_cache_len=sizes["context"], device=self.device, dtype=dtype
        )
        self.graph = None
        self.read([0])  # the cache gets its memory here, and not while a graph is captured
        if self.device.type == "cuda":
            self._capture()
            self.step(0)

    @torch.inference_mode()
    def read(self, tokens):
        """Begins a text with these tokens. Returns the scores of the token after them, as a list of numbers."""
        self.cache.reset()  # newer versions of the library count positions in the cache
        self._forward(torch.tensor([tokens], device=self.device), torch.arange(len(tokens), device=self.device))
        self.at.fill_(len(tokens))
        return self.scores.tolist()  # waits for the device

    @torch.inference_mode()
    def step(self, token):
        """Adds a token to the text. Returns the scores of the one after it."""
        self.token.fill_(token)
        if self.graph:
            self.graph.replay()
        else:
            self._step()
        return self.scores.tolist()

    def _forward(self, tokens, positions):
        # No token sees positions after its own.
        lowest = torch.finfo(self.model.dtype).min
        mask = torch.zeros(len(positions), len(self.places), device=self.device, dtype=self.model.dtype)
        mask.masked_fill_(self.places > positions[:, None], lowest)
        found = self.model(
            input_ids=tokens,
            attention_mask=mask[None, None],
            position_ids=positions[None],
            cache_position=positions,
            past_key_values=self.cache,
            use_cache=True,
        )
        self.scores.copy_(found.logits[0, -1, : len(self.scores)])

    def _step(self):
        """Decodes a token. All that changes stays where it is, so that a graph can repeat this."""
        self._forward(self.token, self.at)
        self.at.add_(1)

    def _capture(self):
        """Captures the step. It runs on another stream before, as PyTorch asks for."""
        torch.cuda.synchronize()
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            for _ in range(3):
                self._step()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._step()
        self.graph = graph
