"""Models of a daemon (`reef serve`)."""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from collections.abc import Callable
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, NamedTuple

from . import _errors, _reef
from ._closing import Closing
from ._network import _DTYPES, Port, arrays_of
from ._request import Future

if TYPE_CHECKING:
    import ssl

    import numpy

    from ._http import Http

# Names of types in the daemon's protocol, and in NumPy.
_TYPES = {
    "BOOL": "bool",
    **{f"INT{bits}": f"int{bits}" for bits in (8, 16, 32, 64)},
    **{f"UINT{bits}": f"uint{bits}" for bits in (8, 16, 32, 64)},
    **{f"FP{bits}": f"float{bits}" for bits in (16, 32, 64)},
    "BF16": _DTYPES["bfloat16"],
}

# Type of texts there. NumPy has no such type.
_TEXTS = "BYTES"

# Errors after which the daemon is asked about a model again.
_CHANGED = (_reef.InvalidError, _reef.NotFoundError, _errors.UnavailableError)

# Threads for requests over HTTP at the same time.
_MAX_THREADS = 8


class Model(NamedTuple):
    """A model that a daemon has loaded. A size of -1 is free: each request has its own.

    A tensor of texts has the type `object`: its elements are str or bytes in requests, and bytes in
    outputs.
    """

    name: str
    versions: tuple[str, ...]
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    datatypes: tuple[str, ...]
    """Types of the inputs, as the daemon's protocol names them."""

    @property
    def _fits_shared_memory(self) -> bool:
        ports = [*self.inputs, *self.outputs]
        return len(self.inputs) == len(self.outputs) == 1 and all(
            port.dtype == "float32" and -1 not in port.shape for port in ports
        )


def connect(
    address: str | os.PathLike[str] | None = None,
    *,
    token: str | None = None,
    context: ssl.SSLContext | None = None,
    shared_memory: bool = True,
) -> Daemon:
    """Connects to a daemon: at the sockets in a folder, by default that of this user, or over TCP at
    "http://HOST:PORT" or "https://HOST:PORT".

    Requests to a daemon of this machine go through shared memory if their model has one float32
    tensor of fixed size each way, and others over HTTP. `token` is for TCP alone, and `context` for
    https.

    Raises UnavailableError if there is no daemon, DeniedError if it may be that of another user,
    InvalidError for an address with more than a host and a port, or a token with spaces. It is also
    raised for an argument that has no effect.
    """
    from ._http import Http

    http = Http(None if address is None else os.fspath(address), token, context)
    http.call("GET", "/v2")
    return Daemon(http, shared_memory and http.is_local)


class _Served(Closing):
    """Requests of one class to a daemon."""

    def __init__(
        self,
        daemon: Daemon,
        is_real_time: bool | None,
        rate: tuple[float, float] | None = None,
    ) -> None:
        self._daemon = daemon
        self._is_real_time = is_real_time
        self._rate = rate
        self._sessions: dict[str, _reef.Session] = {}
        self._connecting: dict[str, Any] = {}
        self._lock = threading.Lock()
        self._is_closed = False

    def close(self) -> None:
        """Closes its connections through shared memory. Their open requests are lost, and later ones are
        refused with CancelledError."""
        with self._lock:
            self._is_closed = True
            sessions, self._sessions = self._sessions, {}
        sessions.clear()  # without the lock: their connections end

    def _check(self) -> None:
        """Refuses a forked child, whose threads and connections are its parent's, and use after `close`."""
        _check_process(self._daemon._process)
        if self._is_closed or self._daemon._is_closed:
            raise _closed()

    def submit(
        self, model: str | Model, *inputs: Any, deadline: float | None = None, **named: Any
    ) -> Future:
        """Submits one inference. Inputs come in the model's order, or by their names.

        An input is a NumPy array of its port's shape and type, or anything with DLPack in the
        host's memory; it is copied before this returns. `deadline`: seconds from now; a request that
        has not ended then ends with DeadlineError.

        Raises InvalidError for a wrong input, NotFoundError if no such model is loaded, DeniedError
        if the class is not granted, BusyError if too many requests are on their way, CancelledError
        after `close`.
        """
        self._check()
        if not isinstance(model, Model):
            model = self._daemon.model(model)
        try:
            arrays = arrays_of(model.name, model.inputs, inputs, named)
        except _reef.InvalidError:
            self._forget(model.name)  # it may have been loaded again, with another shape
            raise
        if self._daemon._uses_shared_memory and model._fits_shared_memory:
            try:
                request = self._session(model.name).submit(arrays[0].reshape(-1), deadline)
            except _CHANGED:
                self._forget(model.name)
                raise
            local = _Local(request, lambda: self._forget(model.name))
            return Future(_Output(model), request, local)
        # Copied here: another thread sends them, and the caller may write to its arrays meanwhile.
        body, length = self._body(model, arrays, deadline)
        answer = self._daemon._threads.run(lambda: self._infer(model, body, length))
        return Future(_Output(model), answer, answer)

    def run(
        self, model: str | Model, *inputs: Any, deadline: float | None = None, **named: Any
    ) -> Any:
        """Submits one inference and waits for its output. See `submit` and `Future.result`."""
        return self.submit(model, *inputs, deadline=deadline, **named).result()

    def _session(self, model: str) -> _reef.Session:
        """The connection for a model. A thread of its own connects, because that may have to wait
        until the model is loaded, and this thread may be interrupted."""
        with self._lock:
            session = self._sessions.get(model)
            # A signal's handler may ask for the same model, inside of this thread's wait.
            connecting = self._connecting.setdefault(model, threading.RLock())
        if session is not None and not session.is_lost():
            return session
        with connecting:  # not `_lock`: requests of other models go on meanwhile
            with self._lock:
                session = self._sessions.get(model)
            if session is None or session.is_lost():
                folder, args = self._daemon._http.folder, (self._is_real_time, self._rate)
                made = _Answer(lambda: _reef.Session(folder, model, *args))
                threading.Thread(target=made.make, daemon=True).start()
                made.wait(None)
                with self._lock:
                    if self._is_closed:
                        raise _closed()
                    session = self._sessions[model] = made.value
            return session

    def _forget(self, model: str) -> None:
        """Has the next request ask the daemon about the model again."""
        self._daemon._models.pop(model, None)
        with self._lock:
            self._sessions.pop(model, None)

    def _body(
        self, model: Model, arrays: list[numpy.ndarray[Any, Any]], deadline: float | None
    ) -> tuple[bytes, int]:
        """The body of a request over HTTP, and the length of the JSON that it begins with."""
        parameters: dict[str, Any] = {"binary_data_output": True}
        if self._is_real_time is not None:
            parameters["priority"] = 1 if self._is_real_time else 2
        if deadline is not None:
            parameters["timeout"] = max(1, _micros("deadline", deadline))
        if self._rate is not None:
            parameters["reef_period_us"], parameters["reef_budget_us"] = (
                _micros(name, seconds) for name, seconds in zip(("period", "budget"), self._rate)
            )
        parts = [
            _encoded(port, datatype, array)
            for port, datatype, array in zip(model.inputs, model.datatypes, arrays)
        ]
        inputs = [
            {
                "name": port.name,
                "datatype": datatype,
                "shape": array.shape,
                "parameters": {"binary_data_size": part.nbytes},
            }
            for port, datatype, array, part in zip(model.inputs, model.datatypes, arrays, parts)
        ]
        text = json.dumps({"parameters": parameters, "inputs": inputs}).encode()
        return b"".join([text, *parts]), len(text)

    def _infer(self, model: Model, body: bytes, length: int) -> Any:
        try:
            answer, data, at = self._daemon._http.infer(model.name, body, length)
        except _CHANGED:
            self._forget(model.name)
            raise
        outputs = {}
        for output in answer["outputs"]:
            size = output["parameters"]["binary_data_size"]
            outputs[output["name"]] = _decoded(output, memoryview(data)[at : at + size])
            at += size
        found = tuple(outputs[port.name] for port in model.outputs)
        return found[0] if len(found) == 1 else found


class ServedClient(_Served):
    """A client of a daemon, of one class."""

    def __repr__(self) -> str:
        name = "real-time" if self._is_real_time else "best-effort"
        return f"<reef.ServedClient {name} of {self._daemon}>"

    def __enter__(self) -> ServedClient:
        return self


class Daemon(_Served):
    """A connected daemon. Its own `submit` and `run` have the class that is the daemon's default."""

    def __init__(self, http: Http, uses_shared_memory: bool) -> None:
        super().__init__(self, None)
        self._http = http
        self._uses_shared_memory = uses_shared_memory
        self._process = os.getpid()
        self._threads = _Threads()
        self._models: dict[str, Model] = {}

    def __repr__(self) -> str:
        return f"<reef.Daemon at {self._http.shown}>"

    def __enter__(self) -> Daemon:
        return self

    def real_time(self, *, period: float | None = None, budget: float | None = None) -> ServedClient:
        """Returns a client whose requests are real-time. With `period` and `budget`, seconds of
        device time in each period, the daemon reserves that part, or its settings say what it does
        instead.
        """
        if (period is None) != (budget is None):
            raise _reef.InvalidError("period and budget must be given together")
        rate = None if period is None or budget is None else (period, budget)
        return ServedClient(self, True, rate)

    def best_effort(self) -> ServedClient:
        """Returns a client whose requests are best-effort."""
        return ServedClient(self, False)

    def models(self) -> list[str]:
        """Returns the names of all models that the daemon knows and that are ready."""
        return sorted(
            {found["name"] for found in self._call("POST", "/v2/repository/index", {"ready": True})}
        )

    def model(self, name: str) -> Model:
        """Returns what the daemon says of a model. Raises NotFoundError if it is not loaded."""
        model = self._models.get(name)
        if model is None:
            found = self._call("GET", f"/v2/models/{_path(name)}")
            inputs, outputs = (
                tuple(
                    Port(tensor["name"], tuple(tensor["shape"]), _TYPES.get(tensor["datatype"], "object"))
                    for tensor in found[key]
                )
                for key in ("inputs", "outputs")
            )
            datatypes = tuple(tensor["datatype"] for tensor in found["inputs"])
            versions = tuple(found.get("versions", ()))
            model = self._models[name] = Model(found["name"], versions, inputs, outputs, datatypes)
        return model

    def load(self, name: str) -> Model:
        """Has the daemon load a model, or load it again. Needs the right `control`."""
        self._call("POST", f"/v2/repository/models/{_path(name)}/load")
        self._models.pop(name, None)
        return self.model(name)

    def unload(self, name: str) -> None:
        """Has the daemon unload a model. Needs the right `control`."""
        self._call("POST", f"/v2/repository/models/{_path(name)}/unload")
        self._models.pop(name, None)

    def metrics(self) -> str:
        """Returns the daemon's metrics, as Prometheus reads them."""
        self._check()
        return self._http.get("/metrics").decode()

    def trace(self, seconds: float) -> bytes:
        """Records what the daemon does for that long, and returns a file for Perfetto. At most 60 s.

        Needs the right `control`. Raises InvalidError for another length, Error if another trace is
        being recorded.
        """
        self._check()
        return self._http.get(f"/reef/trace?seconds={float(seconds)!r}")

    def close(self) -> None:
        """Closes all connections. Requests that are on their way may be lost, and later ones, also of its
        clients, are refused with CancelledError."""
        super().close()
        self._threads.close()
        self._http.close()

    def _call(self, method: str, path: str, body: Any = None) -> Any:
        self._check()
        return self._http.call(method, path, body)


def _closed() -> _reef.Error:
    return _reef.CancelledError("the client was closed")


def _check_process(process: int) -> None:
    """Refuses a forked child: threads and connections are those of its parent, `process`."""
    if process != os.getpid():
        raise _reef.Error(
            f"connected in process {process}, of which this one is a fork: connect again here"
        )


def _encoded(port: Port, datatype: str, array: numpy.ndarray[Any, Any]) -> memoryview:
    """Bytes of an input, as the daemon's protocol has them: each text follows its length."""
    if datatype != _TEXTS:
        return array.data
    from .serve._tensors import Spec

    try:
        return Spec(port.name, datatype, [], None).encode(array)[1]
    except (TypeError, ValueError) as error:
        raise _reef.InvalidError(f"input {port.name}: each text must be str or bytes: {error}") from None


def _decoded(output: dict[str, Any], data: memoryview) -> numpy.ndarray[Any, Any]:
    """An output, from the bytes that the daemon's protocol has for it."""
    import numpy

    datatype, shape = output["datatype"], output["shape"]
    if datatype != _TEXTS:
        return numpy.frombuffer(data, numpy.dtype(_TYPES[datatype])).reshape(shape)
    from .serve._tensors import Spec

    texts: numpy.ndarray[Any, Any] = Spec(output["name"], datatype, shape, None).decode(shape, data)
    return texts


def _micros(name: str, seconds: float) -> int:
    """A time in microseconds, as the daemon's protocol has it."""
    if not 0.0 <= seconds < float("inf"):
        raise _reef.InvalidError(f"{name} must be a number of seconds from 0 on, got {seconds}")
    return round(seconds * 1e6)


def _path(name: str) -> str:
    from urllib.parse import quote

    return quote(name, safe="")


class _Local:
    """A request through shared memory."""

    def __init__(self, request: _reef.DaemonRequest, forget: Callable[[], None]) -> None:
        self._request = request
        self._forget = forget

    def wait(self, timeout: float | None) -> tuple[float | None, float | None, float] | None:
        try:
            return self._request.wait(timeout)
        except _errors.UnavailableError:
            self._forget()
            raise

    def cancel(self) -> bool:
        return _cannot_cancel()


class _Answer:
    """A value that another thread makes."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self._function = function
        self._process = os.getpid()
        self._has_ended = threading.Event()
        self._begin = time.monotonic()
        self._error: BaseException | None = None
        self._total = 0.0
        self._told: list[Callable[[], None]] = []
        self.value: Any = None

    def make(self) -> None:
        try:
            self.value = self._function()
        except _reef.Error as error:
            self._error = error
        except BaseException as error:  # also of other kinds, as a panic: a thread waits for the end
            self._error = _reef.Error(f"not an answer of a daemon: {type(error).__name__}: {error}")
        self._total = time.monotonic() - self._begin
        self._has_ended.set()
        self._tell()

    def tell(self, function: Callable[[], None]) -> None:
        """Calls a function when it has ended."""
        self._told.append(function)  # before the question: the other thread asks in the other order
        if self._has_ended.is_set():
            self._tell()

    def _tell(self) -> None:
        with contextlib.suppress(IndexError):  # there are no more
            while True:
                self._told.pop()()

    def wait(self, timeout: float | None) -> tuple[float | None, float | None, float] | None:
        if not self._has_ended.is_set():
            _check_process(self._process)  # a forked child has no thread that makes it
            # Without a limit if it is longer than the system can wait.
            limit = None if timeout is None or timeout > threading.TIMEOUT_MAX else timeout
            if not self._has_ended.wait(limit):
                return None
        if self._error is not None:
            raise self._error
        return None, None, self._total

    def cancel(self) -> bool:
        return _cannot_cancel()


def _cannot_cancel() -> bool:
    raise _reef.UnsupportedError("a request to a daemon ends at its deadline")


class _Output:
    """Outputs of a model's requests."""

    def __init__(self, model: Model) -> None:
        self._model = model

    def _read(self, instance: Any) -> Any:
        if isinstance(instance, _Answer):
            return instance.value
        return instance.output().reshape(self._model.outputs[0].shape)

    def _give(self, instance: Any) -> None:
        pass

    def _leave(self, instance: Any, request: Any) -> None:
        pass


class _Threads:
    """Threads for requests, started when they are needed. They don't keep the program alive."""

    def __init__(self) -> None:
        self._waiting: SimpleQueue[_Answer | None] = SimpleQueue()
        self._lock = threading.RLock()  # a signal's handler may submit while a thread starts
        self._idle = 0
        self._started = 0
        self._is_closed = False

    def run(self, function: Callable[[], Any]) -> _Answer:
        """Has a thread make a value."""
        answer = _Answer(function)
        with self._lock:
            if self._is_closed:
                raise _closed()
            if self._idle > 0:
                self._idle -= 1
            elif self._started < _MAX_THREADS:
                self._start()
            self._waiting.put(answer)  # before the ends of threads, which `close` puts there
        return answer

    def _start(self) -> None:
        """Starts a thread. If the system has none, those that there are take more."""
        try:
            threading.Thread(target=self._work, name="reef-daemon", daemon=True).start()
            self._started += 1
        except RuntimeError as error:
            if self._started == 0:
                raise _reef.HostError(f"a thread cannot start: {error}") from None

    def close(self) -> None:
        """Ends them after what waits."""
        with self._lock:
            started = 0 if self._is_closed else self._started
            self._is_closed = True
            for _ in range(started):
                self._waiting.put(None)

    def _work(self) -> None:
        while (answer := self._waiting.get()) is not None:
            answer.make()
            with self._lock:
                self._idle += 1
