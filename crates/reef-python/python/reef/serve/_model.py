"""What a program defines: its model; and what it gets: requests."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ._device import DeviceArray


def _hear_nothing() -> None:
    pass


class InvalidRequest(ValueError):
    """The request is wrong: its client gets this text, as an error of the client."""


class RequestFailed(RuntimeError):
    """The request has failed: its client gets this text as it is, as an error of this kind of the protocol."""

    def __init__(self, text: str, kind: str = "failed") -> None:
        super().__init__(text)
        self.kind = kind


class Request(Mapping[str, Any]):
    """A request: a mapping from the names of inputs to their values."""

    id: str
    """Identifier that the client gave it; may be empty."""
    class_name: str
    """Class: "rt" or "be"."""
    outputs: list[str]
    """Names of the outputs that the client wants."""
    sequence: int | None
    """Number of its sequence, if it is part of one: the daemon's own, as clients may choose the same identifier. A
    number is used again, with `starts_sequence`, once its sequence has ended or was forgotten."""
    starts_sequence: bool
    """True for the first request of a sequence: state that is there for its number is an old one's."""
    ends_sequence: bool
    """True for the last request of a sequence."""

    def __init__(
        self, header: Mapping[str, Any], values: Mapping[str, Any], hear: Callable[[], None] = _hear_nothing
    ) -> None:
        self.id, self.class_name, self.outputs = header["id"], header["class"], header["outputs"]
        sequence: Mapping[str, Any] = header.get("sequence") or {}
        self.sequence = sequence.get("id")
        self.starts_sequence, self.ends_sequence = sequence.get("start", False), sequence.get("end", False)
        self._until = time.monotonic() + header["timeout_us"] / 1e6
        self._values = values
        self._is_cancelled = False
        self._hear = hear  # reads what the daemon has sent since the request, such as that it is cancelled

    @property
    def remaining(self) -> float:
        """Seconds until its client gets an error instead of an answer."""
        return float(max(self._until - time.monotonic(), 0.0))

    @property
    def is_cancelled(self) -> bool:
        """True once no client waits for it: an answer, or an error, is due soon all the same."""
        if not self._is_cancelled:
            self._hear()
        return self._is_cancelled

    def _cancel(self) -> None:
        self._is_cancelled = True

    def _end(self) -> bool:
        """Forgets inputs in device memory, which the client may free after the answer, and returns whether there were
        any. Nothing is heard of it any more."""
        self._hear = _hear_nothing
        before = self._values
        self._values = {name: value for name, value in before.items() if not isinstance(value, DeviceArray)}
        return len(self._values) < len(before)

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


class Model:
    """A model: a subclass says which tensors it has, and answers requests."""

    inputs: Mapping[str, Any] = {}
    outputs: Mapping[str, Any] = {}
    device_memory: bool = False
    """True if it takes inputs in a client's device memory, each as a `DeviceArray`. They are refused otherwise."""

    name: str
    """Name of the model in the daemon."""
    version: int
    class_name: str
    """Class of the requests that this process gets: "rt" or "be"."""
    folder: str
    """Folder of the version's files."""
    instance: int
    """Number of this process among those of its class."""
    config: Mapping[str, Any]
    """The model's `config.pbtxt`, if it has one."""

    def load(self, device: str) -> None:
        """Prepares for requests. The model is ready when this returns. `device` is the daemon's name
        for the device: "cpu:0"."""

    def infer(self, request: Request) -> Mapping[str, Any]:
        """Answers a request: a value for each output, or for each that is wanted."""
        raise NotImplementedError(f"{type(self).__name__} must have a method infer")

    def infer_batch(self, requests: list[Request]) -> Sequence[Mapping[str, Any] | Exception]:
        """Answers requests together, each as `infer` does, in their order. An exception in place of an answer is
        the error of its request. A model whose `max_batch` is set has this in place of `infer`."""
        raise NotImplementedError(f"{type(self).__name__} has no method infer_batch")

    def stream(self, request: Request) -> Iterator[Mapping[str, Any]]:
        """Answers a request in parts: yields the outputs of each. A model has this or `infer`."""
        raise NotImplementedError(f"{type(self).__name__} has no method stream")

    def unload(self) -> None:
        """Called before the end, after the last request."""
