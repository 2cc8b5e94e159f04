"""Text as bytes: a tokenizer, a chat template and the choice of a token, which need nothing that must be downloaded.

The programs next to this file import it: chat.py, transformers_chat.py.
"""

import math

END = 256  # the token after those of the bytes


class ByteTokenizer:
    """Tokens 0 to 255 are the bytes of UTF-8. Nothing has to be learnt or downloaded."""

    def encode(self, text):
        return list(text.encode())

    def decode(self, tokens):
        return bytes(tokens)  # perhaps only a part of a character


def chat_template(messages):
    """The conversation as one text, up to where the next answer begins."""
    said = [f"<|{message['role']}|>\n{message['content']}\n" for message in messages]
    return "".join(said) + "<|assistant|>\n"


def choose(scores, request, chance):
    """A token of a dict from tokens to their scores, which are logarithms of weights: the best one, unless the request
    has a temperature. Then chance decides among the best that have `top_p` of the weight together."""
    ranked = sorted(scores, key=scores.get, reverse=True)
    if not request.temperature:
        return ranked[0]
    weights = [math.exp((scores[token] - scores[ranked[0]]) / request.temperature) for token in ranked]
    kept, left = 0, sum(weights) * (1.0 if request.top_p is None else request.top_p)
    while left > 0 and kept < len(weights):
        left -= weights[kept]
        kept += 1
    kept = max(kept, 1)
    return chance.choices(ranked[:kept], weights[:kept])[0]
