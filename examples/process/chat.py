"""A model that generates text and needs nothing: bytes are its tokens, and what it knows is in this file.

It is a program for the daemon (docs/operate/process-models.md, "Text"). In models/chat/1, next to byte_text.py, with
`engine = "process"` and `command = ["python3", "chat.py"]` in models/chat/model.toml, it answers

    curl -s -H 'content-type: application/json' http://127.0.0.1:8000/v1/chat/completions -d '{
      "model": "chat", "messages": [{"role": "user", "content": "What is a gate?"}]}'

For a network of yours, replace `load` and `next_token`, as transformers_chat.py does.
"""

import math
import random
from collections import Counter

import reef.serve
from byte_text import END, ByteTokenizer, chat_template, choose

CONTEXT = 32  # tokens that decide about the next one

CONVERSATIONS = [
    ("What is REEF?", "REEF runs real-time and best-effort models on one GPU."),
    ("What is a gate?", "A gate holds the launches of best-effort programs while real-time work runs."),
    ("Wie geht es dir?", "Schön, danke! 😀"),
]


class Chat(reef.serve.TextModel):
    parameters = ["seed", "temperature", "top_p"]
    max_tokens = 1024

    def load(self, device):
        self.tokenizer = ByteTokenizer()
        self.counts = {}  # of the tokens that follow a context
        for question, answer in CONVERSATIONS:
            text = self.chat_prompt([{"role": "user", "content": question}]) + answer
            tokens = [*self.tokenizer.encode(text), END]
            for at, token in enumerate(tokens):
                for length in range(min(at, CONTEXT) + 1):
                    self.counts.setdefault(tuple(tokens[at - length : at]), Counter())[token] += 1

    def chat_prompt(self, messages):
        return chat_template(messages)

    def generate(self, request):
        tokens = self.tokenizer.encode(request.prompt)
        request.prompt_tokens = len(tokens)
        chance = random.Random(request.seed)
        while (token := self.next_token(tokens, request, chance)) != END:
            tokens.append(token)
            yield self.tokenizer.decode([token])

    def next_token(self, tokens, request, chance):
        """A token that follows the longest known end of the text, the more frequent the more likely."""
        ends = (tuple(tokens[len(tokens) - length :]) for length in range(min(len(tokens), CONTEXT), -1, -1))
        counts = next(self.counts[end] for end in ends if end in self.counts)
        return choose({token: math.log(count) for token, count in counts.most_common()}, request, chance)


if __name__ == "__main__":
    reef.serve.run(Chat)
