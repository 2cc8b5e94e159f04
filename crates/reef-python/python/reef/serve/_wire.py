"""Frames of the protocol between the daemon and a model's process.

A frame is two lengths (32 and 64 bits, little-endian), a header of JSON, and the bytes of tensors.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import threading
from typing import Any

PROTOCOL = 1
_LENGTHS = struct.Struct("<IQ")
_MAX_PARTS = 512  # of one call of the system


class Channel:
    """The socket to the daemon. One thread reads; any thread may write."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._lock = threading.Lock()

    @classmethod
    def of_stdin(cls) -> Channel:
        """The daemon's socket, which is standard input. Reads of that give nothing afterwards."""
        try:
            connection = socket.socket(fileno=os.dup(0))
            if connection.family != socket.AF_UNIX:
                raise OSError("another family")
        except OSError:
            raise SystemExit(
                "reef.serve: standard input must be the daemon's socket: the daemon starts this program "
                'for a model with engine = "process" in its model.toml'
            ) from None
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        return cls(connection)

    def read(self) -> tuple[dict[str, Any], memoryview] | None:
        """The next message with its tensors; nothing at the end."""
        lengths = self._exactly(_LENGTHS.size)
        if lengths is None:
            return None
        header, tensors = _LENGTHS.unpack(lengths)
        text, data = self._exactly(header), self._exactly(tensors)
        return None if text is None or data is None else (json.loads(bytes(text)), data)

    def _exactly(self, length: int) -> memoryview | None:
        data = memoryview(bytearray(length))
        got = 0
        while got < length:
            try:
                more = self._socket.recv_into(data[got:])
            except ConnectionResetError:
                return None
            if more == 0:
                return None
            got += more
        return data

    def write(self, header: dict[str, Any], tensors: list[memoryview] | None = None) -> None:
        """Sends a message. A daemon that has gone is no error: the end follows."""
        text = json.dumps(header).encode()
        parts = [part for part in tensors or [] if len(part)]
        first = _LENGTHS.pack(len(text), sum(len(part) for part in parts)) + text
        with self._lock:
            try:
                self._send([memoryview(first), *parts])
            except (BrokenPipeError, ConnectionResetError):
                pass

    def _send(self, parts: list[memoryview]) -> None:
        while parts:
            sent = self._socket.sendmsg(parts[:_MAX_PARTS])
            while parts and sent >= len(parts[0]):
                sent -= len(parts[0])
                parts.pop(0)
            if sent:
                parts[0] = parts[0][sent:]
