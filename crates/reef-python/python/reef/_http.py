"""Calls of a daemon over HTTP, on a Unix socket or TCP."""

from __future__ import annotations

import json
import os
import re
import socket
import threading
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, quote, urlsplit

from . import _errors, _reef

if TYPE_CHECKING:
    import ssl

_JSON_LENGTH = "Inference-Header-Content-Length"


_HOST_PORT = re.compile(r"[A-Za-z0-9.-]+:\d+")


def _wrong_address(address: str | None, meant: str = "") -> _reef.InvalidError:
    return _reef.InvalidError(
        f"address must be a folder, http://HOST:PORT or https://HOST:PORT, got {address!r}{meant}"
    )


def _parts(address: str) -> SplitResult:
    """The parts of a daemon's URL, which has a host and a port alone."""
    try:
        url = urlsplit(address)
        has_more = "@" in url.netloc or url.path.strip("/") or url.query or url.fragment
        if url.scheme in ("http", "https") and url.hostname and url.port != 0 and not has_more:
            return url
    except ValueError:  # of the host or the port
        pass
    raise _wrong_address(address)


def _bearer(token: str) -> str:
    """The header of a token, which an error must not show."""
    if not re.fullmatch("[!-~]+", token):
        raise _reef.InvalidError("token must be printable ASCII without spaces or ends of lines")
    return f"Bearer {token}"


class _UnixConnection(HTTPConnection):
    """Connection to the daemon's socket in a folder, which may be that of no other user."""

    def __init__(self, folder: str | None) -> None:
        super().__init__("localhost")
        self._folder = folder

    def connect(self) -> None:
        self.sock = socket.socket(fileno=_reef.daemon_socket(self._folder, "http.sock"))


class Http:
    """Connections to one daemon. Any thread may call it; each call has a connection of its own."""

    def __init__(self, address: str | None, token: str | None, context: ssl.SSLContext | None) -> None:
        if address == "":
            raise _wrong_address(address)
        self._place = address
        self._url = _parts(address) if address and "://" in address else None
        if self._url is None and address and _HOST_PORT.fullmatch(address) and not os.path.exists(address):
            raise _wrong_address(address, f": did you mean http://{address}?")
        # Refused where they have no effect: the caller would take its requests for encrypted, say.
        if token and self._url is None:
            raise _reef.InvalidError(
                f"token must go with http://HOST:PORT or https://HOST:PORT, got {self.shown}"
            )
        if context is not None and (self._url is None or self._url.scheme != "https"):
            raise _reef.InvalidError(f"context must go with https://HOST:PORT, got {self.shown}")
        self._context = context
        self._headers = {} if token is None else {"Authorization": _bearer(token)}
        self._free: list[HTTPConnection] = []
        self._is_closed = False
        self._lock = threading.Lock()

    @property
    def folder(self) -> str | None:
        """Folder of the sockets, or nothing for the default one."""
        return None if self._url else self._place

    @property
    def shown(self) -> str:
        """Address for people."""
        return self._place or "this user's sockets"

    @property
    def is_local(self) -> bool:
        """Whether the daemon is on this machine, behind Unix sockets."""
        return self._url is None

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            free, self._free = self._free, []
        for connection in free:
            connection.close()

    def _open(self) -> HTTPConnection:
        if self._url is None:
            return _UnixConnection(self._place)
        host = self._url.hostname or ""
        if self._url.scheme == "https":
            return HTTPSConnection(host, self._url.port, context=self._context)
        return HTTPConnection(host, self._url.port)

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """Makes a call with JSON, and returns that of the answer."""
        data = b"" if body is None else json.dumps(body).encode()
        answer, _, _ = self._exchange(method, path, data, {"Content-Type": "application/json"})
        try:
            return json.loads(answer) if answer else None
        except ValueError as error:
            text = f"{self.shown} is not a daemon: {method} {path} must be answered with JSON: {error}"
            raise _errors.UnavailableError(text) from None

    def get(self, path: str) -> bytes:
        """Returns the body of a page."""
        return bytes(self._exchange("GET", path, b"", {})[0])

    def infer(self, model: str, body: bytes, length: int) -> tuple[Any, bytearray, int]:
        """Requests an inference; `length` is that of the JSON in `body`. Returns the answer's JSON, and
        its bytes with the place at which binary data begins."""
        headers = {_JSON_LENGTH: str(length), "Content-Type": "application/octet-stream"}
        path = f"/v2/models/{quote(model, safe='')}/infer"
        data, length, _ = self._exchange("POST", path, body, headers)
        return json.loads(bytes(memoryview(data)[:length])), data, length

    def _keep(self, connection: HTTPConnection) -> None:
        with self._lock:
            if not self._is_closed:
                return self._free.append(connection)
        connection.close()

    def _exchange(
        self, method: str, path: str, body: bytes, headers: dict[str, str]
    ) -> tuple[bytearray, int, int]:
        """Returns the body of the answer, the length of its JSON, and the status.

        A connection that was left open may have been closed by the daemon meanwhile, before it read
        anything; the call is made again on a new one then.
        """
        while True:
            with self._lock:
                connection = self._free.pop() if self._free else None
            is_new = connection is None
            connection = connection or self._open()
            has_begun = False
            try:
                connection.request(method, path, body, {**self._headers, **headers})
                answer = connection.getresponse()
                has_begun = True
                data = bytearray(answer.read())
            except (OSError, HTTPException) as error:
                connection.close()
                if isinstance(error, _reef.Error):
                    raise
                if is_new or has_begun:
                    place = self._place or "its folder"
                    text = f"no answer of the daemon at {place}: {error or type(error).__name__}"
                    raise _errors.UnavailableError(text) from error
                continue
            except BaseException:
                connection.close()
                raise
            self._keep(connection)
            if answer.status >= 300:
                raise _errors.of_status(answer.status, _text(data, answer.reason))
            return data, int(answer.headers.get(_JSON_LENGTH, len(data))), answer.status


def _text(data: bytearray, reason: str) -> str:
    """The daemon's words in an answer."""
    try:
        return str(json.loads(data)["error"])
    except (ValueError, KeyError, TypeError):
        return data.decode(errors="replace")[:200] or reason

