"""Real-time phases: a process that is a guest of the daemon (`reef exec`) is real-time while it works on a real-time request."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import sys
from collections.abc import Iterator
from time import monotonic

# Least time from a search in vain to the next one, in seconds. A search takes 100 µs, longer than an empty request.
# The system's list of libraries would be quicker to ask, but it is locked while it calls back: a thread that waits
# for the interpreter there, and one that has the interpreter and opens a library, would wait for each other.
_SEARCH_INTERVAL = 0.1


def _library() -> ctypes.CDLL | None:
    """The library for unmodified programs, if it is loaded: for the whole process, or in the driver's place."""
    for name, mode in [(None, 0), ("libcuda.so.1", getattr(os, "RTLD_NOLOAD", 0))]:
        if name is not None and mode == 0:
            continue
        with contextlib.suppress(OSError, AttributeError):
            library = ctypes.CDLL(name, mode=mode | os.RTLD_LAZY)
            library.reef_guest_why.restype = ctypes.c_char_p
            return library
    return None


class Phases:
    """Phases of one process. Without the library, or where the daemon grants none, requests run as they are."""

    def __init__(self) -> None:
        self._library: ctypes.CDLL | None = None
        self._next_search = 0.0
        self._is_refused = False

    @contextlib.contextmanager
    def of(self, class_name: str) -> Iterator[None]:
        """Encloses the work for one request of this class."""
        if class_name != "rt" or self._is_refused or not self._begin():
            yield
            return
        try:
            yield
        finally:
            assert self._library is not None
            self._library.reef_guest_end_phase()

    def _begin(self) -> bool:
        # A program may open the driver late.
        if self._library is None and (now := monotonic()) >= self._next_search:
            self._library, self._next_search = _library(), now + _SEARCH_INTERVAL
        code = self._library.reef_guest_begin_phase() if self._library else errno.ENODEV
        if code in (0, errno.ENODEV):
            return bool(code == 0)
        assert self._library is not None
        self._is_refused = code == errno.EPERM
        why = self._library.reef_guest_why().decode(errors="replace")
        print(f"reef.serve: no real-time phase: {why}", file=sys.stderr)
        return False
