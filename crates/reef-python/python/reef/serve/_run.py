"""The loop of a model's process."""

from __future__ import annotations

import contextlib
import inspect
import os
import sys
import threading
import traceback
from collections.abc import Callable, Generator, Iterator, Mapping
from typing import Any, TypeVar

from ._device import DeviceArray, Driver
from ._model import InvalidRequest, Model, Request, RequestFailed
from ._phase import Phases
from ._tensors import Spec
from ._text import TextModel
from ._wire import PROTOCOL, Channel, Message, read_file

# Maximum length of an error's text, which may quote a client. A header has a maximum, too, and the daemon
# shows its clients less.
_MAX_TEXT = 4096

_COROUTINE = inspect.CO_COROUTINE | inspect.CO_ITERABLE_COROUTINE | inspect.CO_ASYNC_GENERATOR

_T = TypeVar("_T")


def run(model: type[Model] | Model) -> None:
    """Serves the model's requests, one or one batch at a time, until the daemon ends the conversation."""
    channel = Channel.of_stdin()
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    started = channel.read()
    if started is None:
        return
    try:
        loaded, inputs, outputs = _load(model, started.header)
    except BaseException as error:
        traceback.print_exc()
        channel.write({"type": "error", "error": _text(error)})
        raise SystemExit(1) from None
    header: dict[str, Any] = {"type": "ready", "protocol": PROTOCOL}
    header |= {"inputs": _headers(inputs), "outputs": _headers(outputs)}
    header["streams"] = _streams(loaded)
    if _takes_batches(loaded):
        header["batches"] = True
    if started.header.get("files"):  # a daemon that does not know them refuses the field
        header["files"] = True
    if loaded.device_memory and started.header.get("device_memory"):
        header["device_memory"] = True
    if isinstance(loaded, TextModel):
        header["text"] = {"parameters": list(loaded.parameters)}
    channel.write(header)
    requests = _Requests(channel, inputs, Driver(started.header["device"], started.header.get("gpu")))
    phases = Phases()
    while (batch := requests.next()) is not None:
        with phases.of(batch[0][1].class_name):
            _serve(channel, loaded, batch, outputs)
    loaded.unload()


def _load(
    model: type[Model] | Model, start: Mapping[str, Any]
) -> tuple[Model, dict[str, Spec], dict[str, Spec]]:
    if start.get("type") != "start" or start.get("protocol") != PROTOCOL:
        raise RuntimeError(f"protocol must be {PROTOCOL}, got {start.get('protocol')!r}")
    made = model() if isinstance(model, type) else model
    made.name, made.version = start["model"], start["version"]
    made.class_name, made.folder = start["class"], start["folder"]
    made.instance, made.config = start["instance"], start.get("config") or {}
    made.load(start["device"])
    specs = ({name: Spec.of(name, of) for name, of in each.items()} for each in (made.inputs, made.outputs))
    return made, *specs  # type: ignore[return-value]


def _headers(specs: Mapping[str, Spec]) -> list[dict[str, Any]]:
    return [spec.header() for spec in specs.values()]


class _Requests:
    """Requests of the daemon. The thread that runs them reads them as well: another one would have to wake it up for
    each. A request that runs hears of its end when it asks."""

    def __init__(self, channel: Channel, inputs: Mapping[str, Spec], driver: Driver) -> None:
        self._channel, self._inputs, self._driver = channel, inputs, driver
        self._lock = threading.Lock()
        # Those that run. While there are any, the one with the lock reads; `next` reads between.
        self._open: dict[int, Request] = {}
        # A message that was read by one of them after the last answer.
        self._early: Message | None = None
        self._is_over = False

    def next(self) -> list[tuple[int, Request]] | None:
        """Waits for requests that run together; nothing at the end."""
        with self._lock:
            self._open = {}
        while not self._is_over:
            messages = self._read(self._receive)
            if taken := self._take(messages or []):
                with self._lock:
                    self._open = taken
                return list(taken.items())
        return None

    def hear(self) -> None:
        """Reads what has come for the requests that run: which of them are cancelled."""
        with self._lock:
            while self._open and not self._early and not self._is_over and self._channel.has_message():
                message = self._read(self._channel.read)
                if message is not None and message.header["type"] != "cancel":
                    self._early = message
                elif message is not None and message.header["request"] in self._open:
                    self._open[message.header["request"]]._cancel()

    def _read(self, read: Callable[[], _T | None]) -> _T | None:
        """Reads. The end, or an error, is the last thing that is read."""
        result: _T | None = None
        try:
            result = read()
        except Exception:
            traceback.print_exc()
        self._is_over = result is None
        return result

    def _receive(self) -> list[Message] | None:
        """The messages of requests that run together; nothing at the end."""
        while (message := self._message()) is not None:
            if message.header["type"] == "infer":
                return [message]
            if message.header["type"] == "batch":
                messages = []  # all are read before any is answered
                for _ in message.header["requests"]:
                    if (message := self._message()) is None:
                        return None
                    messages.append(message)
                return messages
        return None

    def _message(self) -> Message | None:
        early, self._early = self._early, None
        return early or self._channel.read()

    def _take(self, messages: list[Message]) -> dict[int, Request]:
        """The requests by number. Those that cannot be read are answered."""
        taken: dict[int, Request] = {}
        errors = []
        for message in messages:
            number = message.header["request"]
            try:
                taken[number] = Request(message.header, self._values(message), self.hear)
            except Exception as unread:
                _forget_frames(unread)
                errors.append((number, unread))
            finally:
                for file in message.files:
                    os.close(file)
        for number, error in errors:
            _answer_error(self._channel, number, error, "invalid")
        return taken

    def _values(self, message: Message) -> dict[str, Any]:
        values: dict[str, Any] = {}
        at, files = 0, iter(message.files)
        for tensor in message.header["inputs"]:
            name, shape = tensor["name"], tensor["shape"]
            if "device" in tensor:
                values[name] = DeviceArray(self._driver, tensor["device"], self._inputs[name], shape)
                continue
            if "offset" in tensor:
                data = read_file(next(files), tensor["offset"], tensor["bytes"])
            else:
                data = message.data[at : at + tensor["bytes"]]
                at += tensor["bytes"]
            values[name] = self._inputs[name].decode(shape, data)
        return values


def _serve(
    channel: Channel, model: Model, batch: list[tuple[int, Request]], outputs: Mapping[str, Spec]
) -> None:
    if _streams(model):
        for number, request in batch:
            with _errors_of(channel, number, request):
                _send_parts(channel, model, (number, request), outputs)
        return
    answers = _answers(model, [request for _, request in batch])
    for (number, request), answer in zip(batch, answers):
        with _errors_of(channel, number, request):
            if isinstance(answer, Exception):
                raise answer
            encoded = _encode(answer, request.outputs, outputs)
            headers, data = [header for header, _ in encoded], [data for _, data in encoded]
            request._end()
            channel.write({"type": "answer", "request": number, "outputs": headers}, data)


def _answers(model: Model, requests: list[Request]) -> list[Any]:
    """An answer or an exception for each request."""
    try:
        if not _takes_batches(model):
            return [model.infer(request) for request in requests]  # the daemon sends one
        answers = list(model.infer_batch(requests))
        if len(answers) != len(requests):
            counts = f"{len(answers)} for {len(requests)}"
            raise RuntimeError(f"infer_batch must return one answer for each request, got {counts}")
    except Exception as error:
        return [error for _ in requests]
    return answers


@contextlib.contextmanager
def _errors_of(channel: Channel, number: int, request: Request) -> Iterator[None]:
    """Answers a request with the exception of its block, if there is one."""
    try:
        yield
    except Exception as error:
        is_invalid = isinstance(error, InvalidRequest)
        if not is_invalid:
            traceback.print_exc()
        if request._end():
            _forget_frames(error)
        kind = error.kind if isinstance(error, RequestFailed) else "failed"
        _answer_error(channel, number, error, "invalid" if is_invalid else kind)


def _forget_frames(error: BaseException) -> None:
    """Clears the frames of an exception, and of those that it comes from: they have inputs, too. That of a coroutine
    stays, which may have caught the exception and would end."""
    left: list[BaseException | None] = [error]
    seen: set[int] = set()
    while left:
        one = left.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        left += [one.__cause__, one.__context__]
        trace = one.__traceback__
        while trace is not None:
            if not trace.tb_frame.f_code.co_flags & _COROUTINE:
                with contextlib.suppress(RuntimeError):  # it runs
                    trace.tb_frame.clear()
            trace = trace.tb_next


def _streams(model: Model) -> bool:
    return type(model).stream is not Model.stream


def _takes_batches(model: Model) -> bool:
    return type(model).infer_batch is not Model.infer_batch and not _streams(model)


def _send_parts(
    channel: Channel, model: Model, numbered: tuple[int, Request], outputs: Mapping[str, Spec]
) -> None:
    number, request = numbered
    parts = iter(model.stream(request))
    for part in parts:
        if request.is_cancelled:
            if isinstance(parts, Generator):
                parts.close()  # its `finally` runs
            break
        encoded = _encode(part, request.outputs, outputs)
        headers, data = [header for header, _ in encoded], [data for _, data in encoded]
        channel.write({"type": "part", "request": number, "outputs": headers}, data)
    request._end()
    channel.write({"type": "end", "request": number})


def _encode(
    answer: Mapping[str, Any], wanted: list[str], outputs: Mapping[str, Spec]
) -> list[tuple[dict[str, Any], memoryview]]:
    if not isinstance(answer, Mapping):
        raise TypeError(f"infer must return a dict of outputs, got {type(answer).__name__}")
    if missing := [name for name in wanted if name not in answer]:
        raise ValueError(f"infer must return output {missing[0]!r}, got {', '.join(answer) or 'none'}")
    return [outputs[name].encode(answer[name]) for name in wanted]


def _answer_error(channel: Channel, number: int, error: BaseException, kind: str) -> None:
    channel.write({"type": "error", "request": number, "error": _text(error), "kind": kind})


def _text(error: BaseException) -> str:
    text = str(error)
    if not isinstance(error, (InvalidRequest, RequestFailed)):
        text = f"{type(error).__name__}: {text}" if text else type(error).__name__
    # Half of a surrogate pair, as of a file's name, is not JSON for the daemon.
    return text[:_MAX_TEXT].encode(errors="replace").decode()
