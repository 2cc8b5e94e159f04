"""Real-time phases: a process that is a guest of the daemon (`reef exec`) is real-time while it works on a real-time request."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import sys
from collections.abc import Iterator


class _Object(ctypes.Structure):
    """A loaded library as `dl_iterate_phdr` gives it, up to the number of libraries that were loaded so far."""

    _fields_ = (
        ("address", ctypes.c_void_p),
        ("name", ctypes.c_char_p),
        ("headers", ctypes.c_void_p),
        ("header_count", ctypes.c_uint16),
        ("loads", ctypes.c_ulonglong),
    )


_loads_seen = [0]


@ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_Object), ctypes.c_size_t, ctypes.c_void_p)
def _visit(loaded: ctypes._Pointer[_Object], _bytes: int, _data: int | None) -> int:
    _loads_seen[0] = loaded.contents.loads
    return 1  # the first library says it


_iterate = ctypes.CDLL(None).dl_iterate_phdr


def _loads() -> int:
    """Returns how many libraries this process has loaded so far. A search for one takes 100 µs, this some 3."""
    _iterate(_visit, None)
    return _loads_seen[0]


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
        self._searched = -1
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
        if self._library is None and self._searched != (loads := _loads()):
            self._library, self._searched = _library(), loads
        code = self._library.reef_guest_begin_phase() if self._library else errno.ENODEV
        if code in (0, errno.ENODEV):
            return bool(code == 0)
        assert self._library is not None
        self._is_refused = code == errno.EPERM
        why = self._library.reef_guest_why().decode(errors="replace")
        print(f"reef.serve: no real-time phase: {why}", file=sys.stderr)
        return False
