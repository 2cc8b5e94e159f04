"""A model that generates text, and its requests: those of `/v1/chat/completions` and `/v1/completions`."""

from __future__ import annotations

import codecs
import json
from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ._model import InvalidRequest, Model, Request

# Sampling parameters that a model may take, with their types.
_SAMPLING: dict[str, tuple[type, ...]] = {
    "frequency_penalty": (int, float),
    "presence_penalty": (int, float),
    "seed": (int,),
    "temperature": (int, float),
    "top_p": (int, float),
}


class Piece(NamedTuple):
    """A piece of a text that is not one token."""

    text: str | bytes
    tokens: int = 1
    """Number of its tokens."""


class TextRequest:
    """A request for text."""

    messages: list[dict[str, str]] | None
    """Messages with "role", "content" and perhaps "name"; `None` for a request with a prompt."""
    prompt: str
    """The prompt: that of the request, or of `chat_prompt`."""
    prompt_tokens: int
    """Number of the prompt's tokens, which the client is told: `generate` sets it. It is 0 before."""
    max_tokens: int
    """Maximum number of tokens of the text. The text ends there, if `generate` yields more."""
    stop: list[str]
    """Texts that end the answer, which does not have them. The text ends there, if `generate` yields more."""
    frequency_penalty: float | None
    presence_penalty: float | None
    seed: int | None
    temperature: float | None
    top_p: float | None
    user: str | None
    """The client's name of its own user."""

    def __init__(self, request: Request, model: TextModel) -> None:
        self._request = request
        fields = _object(request["request"])
        self.messages = _messages(fields.pop("messages")) if "messages" in fields else None
        self.prompt = _typed(fields, "prompt", (str,), "")
        if ("prompt" in fields) == (self.messages is not None):
            raise InvalidRequest("request: must have one of messages and prompt")
        self.prompt_tokens = 0
        self.max_tokens = _typed(fields, "max_tokens", (int,), model.max_tokens)
        if not 1 <= self.max_tokens <= model.max_tokens:
            raise InvalidRequest(f"max_tokens: must be 1 to {model.max_tokens}, got {self.max_tokens}")
        self.stop = _typed(fields, "stop", (list,), [])
        if not all(isinstance(text, str) and text for text in self.stop):
            raise InvalidRequest("stop: must be a list of texts that are not empty")
        self.user = _typed(fields, "user", (str,), None)
        for name, types in _SAMPLING.items():
            if name in fields and name not in model.parameters:
                raise InvalidRequest(f"{name}: is not supported by this model")
            setattr(self, name, _typed(fields, name, types, None))
        known = {"prompt", "max_tokens", "stop", "user", *_SAMPLING}
        if unknown := [name for name in fields if name not in known]:
            raise InvalidRequest(f"request: unknown field {unknown[0]!r}")

    @property
    def id(self) -> str:
        """Identifier of the answer."""
        return self._request.id

    @property
    def class_name(self) -> str:
        """Class: "rt" or "be"."""
        return self._request.class_name

    @property
    def remaining(self) -> float:
        """Seconds until its client gets an error instead of the rest of the text."""
        return self._request.remaining

    @property
    def is_cancelled(self) -> bool:
        """True once no client waits for more: the text is due to end soon."""
        return self._request.is_cancelled


class TextModel(Model):
    """A model that generates text: a subclass has `generate`, and `chat_prompt` if it is for conversations. The
    daemon's `/v1/chat/completions` and `/v1/completions` are for these models."""

    inputs: Mapping[str, Any] = {"request": str}
    outputs: Mapping[str, Any] = {"text": str, "finish_reason": str, "tokens": ("INT64", [2])}

    parameters: Sequence[str] = ()
    """Sampling parameters that `generate` applies, of "frequency_penalty", "presence_penalty", "seed", "temperature"
    and "top_p". Others are refused."""
    max_tokens: int = 4096
    """Maximum number of tokens of a text, and that of a request that has none of its own."""

    def chat_prompt(self, messages: list[dict[str, str]]) -> str:
        """Returns the prompt for a conversation, by the model's chat template."""
        raise InvalidRequest("messages: this model takes a prompt, and no conversations")

    def generate(self, request: TextRequest) -> Iterator[str | bytes | Piece]:
        """Yields the text in pieces: one for each token, or a `Piece` with its number of tokens. `bytes` are UTF-8
        that may be cut inside of a character."""
        raise NotImplementedError(f"{type(self).__name__} must have a method generate")

    def stream(self, request: Request) -> Iterator[Mapping[str, Any]]:
        """Answers a request by `generate`."""
        asked = TextRequest(request, self)
        if asked.messages is not None:
            asked.prompt = self.chat_prompt(asked.messages)
        pieces = self.generate(asked)
        try:
            yield from _parts(asked, iter(pieces))
        finally:
            if isinstance(pieces, Generator):
                pieces.close()  # its `finally` runs


def _parts(request: TextRequest, pieces: Iterator[str | bytes | Piece]) -> Iterator[Mapping[str, Any]]:
    """The outputs for each piece of which text can be sent, and for the end."""
    text, tokens, finish = _Text(request.stop), 0, ""
    while not finish:
        piece = next(pieces, None)
        if request.is_cancelled:
            return
        if piece is None:
            made, finish = text.end(), "stop"
        else:
            piece = piece if isinstance(piece, Piece) else Piece(piece)
            tokens += piece.tokens
            made = text.add(piece.text)
            if text.is_stopped:
                finish = "stop"
            elif tokens >= request.max_tokens:
                made, finish = made + text.end(), "length"
        if made or finish:
            yield {"text": made, "finish_reason": finish, "tokens": [request.prompt_tokens, tokens]}


class _Text:
    """Text up to the first of the texts that end it. What may be the beginning of one is kept back."""

    def __init__(self, stop: list[str]) -> None:
        self._stop = stop
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._kept = ""
        self.is_stopped = False

    def add(self, piece: str | bytes) -> str:
        """The text that can be sent once a piece is there."""
        self._kept += piece if isinstance(piece, str) else self._decoder.decode(piece)
        found = [at for at in (self._kept.find(text) for text in self._stop) if at >= 0]
        self.is_stopped = bool(found)
        return self._take(min(found) if found else len(self._kept) - self._begun())

    def end(self) -> str:
        """The rest of the text."""
        self._kept += self._decoder.decode(b"", final=True)
        return self._take(len(self._kept))

    def _begun(self) -> int:
        """Length of the longest end that one of the texts begins with."""
        begun = [n for text in self._stop for n in range(1, len(text)) if self._kept.endswith(text[:n])]
        return max(begun, default=0)

    def _take(self, length: int) -> str:
        taken, self._kept = self._kept[:length], self._kept[length:]
        return taken


def _object(text: str) -> dict[str, Any]:
    try:
        fields = json.loads(text)
    except ValueError as error:
        raise InvalidRequest(f"request: must be JSON: {error}") from None
    if not isinstance(fields, dict):
        raise InvalidRequest("request: must be a JSON object")
    return fields


def _typed(fields: dict[str, Any], name: str, types: tuple[type, ...], default: Any) -> Any:
    """The value of a field, or the default if it is missing."""
    value = fields.get(name, default)
    if name in fields and (not isinstance(value, types) or isinstance(value, bool)):
        wanted = " or ".join(one.__name__ for one in types)
        raise InvalidRequest(f"{name}: must be {wanted}, got {type(value).__name__}")
    return value


def _messages(messages: Any) -> list[dict[str, str]]:
    def is_message(one: Any) -> bool:
        is_text = isinstance(one, dict) and all(isinstance(text, str) for text in one.values())
        return is_text and {"role", "content"} <= set(one) <= {"role", "content", "name"}

    if not isinstance(messages, list) or not messages or not all(map(is_message, messages)):
        raise InvalidRequest("messages: must be a list of objects with role, content and perhaps name, all texts")
    return messages
