"""This program as a guest of REEF (`reef exec`): its class, and real-time phases of it.

    with reef.guest.real_time():
        model(x)
        torch.cuda.synchronize()

The library for unmodified programs has the functions. Without it these do nothing, so a program may
have them and run anywhere.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from . import _reef
from ._errors import DeniedError, UnavailableError

_CLASSES = {1: "be", 2: "rt"}


class Status(NamedTuple):
    """State of this process as a guest."""

    has_library: bool
    """Whether the library for unmodified programs is loaded."""
    class_name: str | None
    """Class: "rt", "be", or nothing as long as no daemon has accepted it."""
    is_held: bool
    """Whether its launches wait for a real-time program now."""
    phases: int
    """Real-time phases that last, of all threads."""


@cache
def _library() -> ctypes.CDLL | None:
    """The library, if it is loaded: for the whole process, or in the driver's place."""
    for name, mode in [(None, 0), ("libcuda.so.1", getattr(os, "RTLD_NOLOAD", 0))]:
        if name is not None and mode == 0:
            continue
        try:
            library = ctypes.CDLL(name, mode=mode | os.RTLD_LAZY)
            library.reef_guest_why.restype = ctypes.c_char_p
            return library
        except (OSError, AttributeError):
            continue
    return None


def _loaded() -> ctypes.CDLL | None:
    """As `_library`; an absence isn't kept, because the driver may be opened later."""
    library = _library()
    if library is None:
        _library.cache_clear()
    return library


def status() -> Status:
    """Returns the state of this process."""
    library = _loaded()
    if library is None:
        return Status(False, None, False, 0)
    return Status(
        True,
        _CLASSES.get(library.reef_guest_class()),
        bool(library.reef_guest_is_held()),
        library.reef_guest_phases(),
    )


@contextlib.contextmanager
def real_time() -> Iterator[None]:
    """Makes this process real-time for the body: it holds best-effort programs of its devices, and
    no program holds it. Phases of threads and nested ones end with the last.

    The end of the body ends it at once, so wait there for the work that belongs to it. Without the
    library or a daemon the body runs as it would without this. A real-time program holds others
    also between its launches in the body, for 20 ms at most.

    Raises DeniedError, a PermissionError, if the daemon grants this user no phases; UnavailableError
    if it doesn't answer. The body doesn't run then.
    """
    library = _loaded()
    code = errno.ENODEV if library is None else library.reef_guest_begin_phase()
    if library is None or code == errno.ENODEV:
        yield
        return
    if code != 0:
        why = library.reef_guest_why().decode(errors="replace")
        kinds: dict[int, type[_reef.Error]] = {
            errno.EPERM: DeniedError,
            errno.EAGAIN: UnavailableError,
        }
        raise kinds.get(code, _reef.Error)(why)
    process = os.getpid()
    try:
        yield
    finally:
        if os.getpid() == process:
            library.reef_guest_end_phase()


def yield_now() -> None:
    """Lets other programs have the devices: those that this one holds go on until its next launch,
    and a best-effort program that is held waits here until it isn't.
    """
    library = _loaded()
    if library is not None:
        library.reef_guest_yield()
