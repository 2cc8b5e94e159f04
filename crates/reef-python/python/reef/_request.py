"""Requests: results that come later."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

from . import _reef

if TYPE_CHECKING:
    import asyncio


class Timing(NamedTuple):
    """Times of a request, in seconds.

    `delay`: from the submission until its first kernel could start; `device`: from then until its
    last kernel had ended. Both are of real-time requests alone, and of those to a daemon through
    shared memory. `total`: from the submission until the end was seen.
    """

    delay: float | None
    device: float | None
    total: float


class Pending(Protocol):
    """A request that is on its way."""

    def wait(self, timeout: float | None, /) -> tuple[float | None, float | None, float] | None: ...
    def cancel(self) -> bool: ...


@runtime_checkable
class Telling(Protocol):
    """A request that calls a function when it has ended, or at once if it has."""

    def tell(self, function: Callable[[], None], /) -> None: ...


class Source(Protocol):
    """What has the outputs of requests, each in an instance of its own."""

    def _read(self, instance: Any, /) -> Any: ...
    def _give(self, instance: Any, /) -> None: ...
    def _leave(self, instance: Any, request: Any, /) -> None: ...


class Future:
    """Result of a submitted inference. `await` gives it, too. Any thread may wait.

    If it is dropped, the inference goes on, and its result is lost.
    """

    def __init__(self, network: Source, instance: Any, request: Pending) -> None:
        self._network = network
        self._instance: Any = instance
        self._request = request
        self._process, self._lock = os.getpid(), threading.Lock()
        self._waiter: int | None = None  # thread that has the lock
        self._awaits: list[asyncio.Future[None]] = []
        self._tells = False  # something tells them of the end
        self._timing: Timing | None = None
        self._result: Any = None
        self._error: _reef.Error | None = None

    def __repr__(self) -> str:
        return f"<reef.Future {'done' if self.done() else 'pending'}>"

    def __del__(self) -> None:
        instance = getattr(self, "_instance", None)
        if instance is not None:
            self._network._leave(instance, self._request)

    def _ends(self, timeout: float | None) -> bool:
        """Whether it has ended; waits for as long as `timeout`, or without limit."""
        if self._process != os.getpid():  # a thread of the parent may have had the lock at the fork
            self._lock, self._process, self._waiter = threading.Lock(), os.getpid(), None
        if self._waiter == threading.get_ident():  # a signal's handler, inside of this thread's wait
            return self._waits(timeout)
        lock = self._lock
        if not lock.acquire(blocking=False):  # another thread waits
            begin, limit = time.monotonic(), -1.0 if timeout is None else max(0.0, timeout)
            if not lock.acquire(timeout=min(limit, threading.TIMEOUT_MAX)):
                return False
            if timeout is not None:
                timeout = max(0.0, timeout - (time.monotonic() - begin))
        try:
            self._waiter = threading.get_ident()
            return self._waits(timeout)
        finally:
            self._waiter = None
            lock.release()

    def _waits(self, timeout: float | None) -> bool:
        """As `_ends`, for the thread that has the lock. A signal's handler may do the same meanwhile."""
        if self._instance is None:
            return True
        try:
            times = self._request.wait(timeout)
            if self._instance is None:
                return True
            if times is None:
                return False
            self._timing = Timing(*times)
            self._result = self._network._read(self._instance)
        except _reef.Error as error:
            if self._instance is None:
                return True
            self._error = error
        instance, self._instance = self._instance, None
        if instance is not None:
            self._network._give(instance)
        return True

    def result(self, timeout: float | None = None) -> Any:
        """Waits for the output: a NumPy array, or a tuple of them if the network has several.

        Raises TimeoutError after `timeout` seconds; the request goes on. Raises CancelledError if
        it was cancelled, and what else it ended with.
        """
        if not self._ends(timeout):
            raise TimeoutError(f"not within {timeout} s")
        if self._error is not None:
            raise self._error
        return self._result

    def done(self) -> bool:
        """Returns whether it has ended. Doesn't wait."""
        return self._ends(0.0)

    def cancel(self) -> bool:
        """Takes back what the device has not got of a real-time request. Returns whether there was
        such a thing; it then ends with CancelledError.

        Raises UnsupportedError for a best-effort request, which ends with its client, and for one of
        a daemon, which ends at its deadline.
        """
        return self._request.cancel()

    @property
    def timing(self) -> Timing:
        """Times of the request. Raises BusyError if it has not ended."""
        if not self._ends(0.0):
            raise _reef.BusyError("the request has not ended")
        if self._timing is None:
            raise self._error or _reef.Error("no times")
        return self._timing

    def __await__(self) -> Generator[Any, None, Any]:
        import asyncio

        if not self._ends(0.0):
            ended = asyncio.get_running_loop().create_future()
            self._awaits.append(ended)  # before the question whether something tells of the end
            if not self._tells:
                self._begin_to_tell()
            yield from ended
        return self.result()

    def _begin_to_tell(self) -> None:
        """Has every `await` told of the end: by the thread that makes the answer, or by one of its own. Those
        of the loop may all wait for requests that take longer, and the program's end would wait for them.
        """
        self._tells = True
        if isinstance(self._request, Telling):
            return self._request.tell(self._tell)
        try:
            threading.Thread(target=self._wait_and_tell, name="reef-await", daemon=True).start()
        except RuntimeError as error:
            self._tells = False
            raise _reef.HostError(f"a thread cannot start: {error}") from None

    def _wait_and_tell(self) -> None:
        try:
            self._ends(None)
        finally:
            self._tell()

    def _tell(self) -> None:
        """Ends the futures of `asyncio` that wait."""
        self._tells = False  # first: one that comes now is among those below, or has itself told
        with contextlib.suppress(IndexError):  # there are no more
            while True:
                ended = self._awaits.pop()
                with contextlib.suppress(RuntimeError):  # its loop is closed
                    ended.get_loop().call_soon_threadsafe(_end, ended)


def _end(ended: asyncio.Future[None]) -> None:
    if not ended.done():  # it may have been cancelled
        ended.set_result(None)
