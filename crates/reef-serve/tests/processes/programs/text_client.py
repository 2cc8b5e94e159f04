"""OpenAI's own client against a daemon at this address, with the model of text.py."""

import sys

import openai

client = openai.OpenAI(base_url=f"http://{sys.argv[1]}/v1", api_key="none", max_retries=0)
messages = [{"role": "user", "content": "b c"}]


def refused(kind, ask):
    try:
        ask()
    except kind as error:
        return error
    raise AssertionError(f"not refused by {kind.__name__}")


assert [model.id for model in client.models.list()] == ["words"]
assert client.models.retrieve("words").owned_by == "reef"

whole = client.chat.completions.create(model="words", messages=messages)
assert whole.choices[0].message.content == "user:bc", whole
assert (whole.choices[0].finish_reason, whole.usage.total_tokens) == ("stop", 4), whole
again = [*messages, whole.choices[0].message, {"role": "user", "content": "d"}]
cut = client.chat.completions.create(model="words", messages=again, max_completion_tokens=3)
assert cut.choices[0].message.content == "user:bcassistant:user:bc", cut
assert cut.choices[0].finish_reason == "length", cut

options = {"include_usage": True}
chunks = list(client.chat.completions.create(model="words", messages=messages, stream=True, stream_options=options))
assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks[:-1]) == "user:bc", chunks
assert chunks[0].choices[0].delta.role == "assistant", chunks
assert chunks[-2].choices[0].finish_reason == "stop" and chunks[-1].usage.total_tokens == 4, chunks

text = client.completions.create(model="words", prompt="ab cd", stop="bc", temperature=0.5, seed=1)
assert (text.choices[0].text, text.choices[0].finish_reason) == ("a", "stop"), text
pieces = list(client.completions.create(model="words", prompt="ab cd", stream=True))
assert [piece.choices[0].text for piece in pieces] == ["ab", "cd", ""], pieces

error = refused(openai.NotFoundError, lambda: client.completions.create(model="none", prompt="a"))
assert (error.code, error.param, error.type) == ("model_not_found", "model", "invalid_request_error"), error.body
error = refused(openai.BadRequestError, lambda: client.completions.create(model="words", prompt="a", n=2))
assert (error.code, error.param) == ("unsupported_parameter", "n"), error.body
refused(openai.InternalServerError, lambda: client.completions.create(model="words", prompt="raise"))
stream = client.completions.create(model="words", prompt="a raise", stream=True)
error = refused(openai.APIError, lambda: list(stream))
assert "no such word" in str(error), error
print("passed")
