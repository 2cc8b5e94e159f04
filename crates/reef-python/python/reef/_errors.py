"""Errors of daemons. They are Python's own errors too, so that callers may name either."""

from __future__ import annotations

from . import _reef


class DeadlineError(_reef.Error, TimeoutError):
    """The request did not end within its deadline."""


class DeniedError(_reef.Error, PermissionError):
    """The caller may not do this."""


class UnavailableError(_reef.Error, ConnectionError):
    """There is no daemon, it ends, or the model was unloaded or reloaded."""


_KINDS: dict[str, type[_reef.Error]] = {
    "not_found": _reef.NotFoundError,
    "invalid": _reef.InvalidError,
    "exists": _reef.InvalidError,
    "too_large": _reef.InvalidError,
    "exhausted": _reef.BusyError,
    "no_space": _reef.BusyError,
    "deadline": DeadlineError,
    "unavailable": UnavailableError,
    "unimplemented": _reef.UnsupportedError,
    "unauthenticated": DeniedError,
    "denied": DeniedError,
}

_STATUSES = {
    400: "invalid",
    401: "unauthenticated",
    403: "denied",
    404: "not_found",
    409: "exists",
    413: "too_large",
    429: "exhausted",
    501: "unimplemented",
    503: "unavailable",
    504: "deadline",
    507: "no_space",
}


def of_kind(kind: str, text: str) -> _reef.Error:
    """Returns the error of a daemon's kind of errors."""
    # The remedy of the command, in the words of Python.
    return _KINDS.get(kind, _reef.Error)(text.replace("--socket-dir", "reef.connect(FOLDER)"))


def of_status(status: int, text: str) -> _reef.Error:
    """Returns the error of an HTTP status."""
    return of_kind(_STATUSES.get(status, ""), text)
