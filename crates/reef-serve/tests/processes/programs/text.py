"""A model that generates text: the words of its prompt, each a token."""

import os
import time

import reef.serve


class Words(reef.serve.TextModel):
    parameters = ["seed", "temperature"]
    max_tokens = 10**9

    def chat_prompt(self, messages):
        return "".join(f"{message['role']}:{message['content']} " for message in messages)

    def generate(self, request):
        if request.prompt == "show":
            shown = ["class_name", "max_tokens", "seed", "temperature", "user"]
            yield repr([getattr(request, name) for name in shown])
            return
        words = request.prompt.split()
        request.prompt_tokens = len(words)
        try:
            for word in words:
                if word == "raise":
                    raise ValueError("no such word")
                if word == "exit":
                    os._exit(7)
                yield word
                if word == "wait":
                    open(os.path.join(self.folder, "begun"), "w").close()
                    while not request.is_cancelled:
                        time.sleep(0.001)
                while word == "forever":
                    yield "x" * 1024
        finally:
            if request.is_cancelled:
                open(os.path.join(self.folder, "cancelled"), "w").close()


reef.serve.run(Words)
