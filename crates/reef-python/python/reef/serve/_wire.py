"""Frames of the protocol between the daemon and a model's process.

A frame is two lengths (32 and 64 bits, little-endian), a header of JSON, and the bytes of tensors. A frame of the type
"file" has a descriptor with its first bytes: of a file with an input of the request that follows.
"""

from __future__ import annotations

import json
import os
import select
import socket
import struct
import threading
from array import array
from typing import Any, NamedTuple

PROTOCOL = 1
_LENGTHS = struct.Struct("<IQ")
_DESCRIPTOR = struct.Struct("i")
_MAX_PARTS = 512  # of one call of the system


class Message(NamedTuple):
    """A message with its tensors."""

    header: dict[str, Any]
    data: memoryview
    files: list[int]
    """Descriptors of files with inputs, in the order of these. Its reader closes them."""


def read_file(file: int, offset: int, length: int) -> memoryview:
    """A copy of a part of a client's shared memory. A mapping of it would end this process with a bus error if the
    client made the memory shorter, which it can at any time."""
    data = memoryview(bytearray(length))
    got = 0
    while got < length:
        more = os.preadv(file, [data[got:]], offset + got)
        if more == 0:
            raise ValueError(f"shared memory: must have {length} bytes at {offset}, got {got}")
        got += more
    return data


class Channel:
    """The socket to the daemon. One thread reads at a time; any thread may write."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._lock = threading.Lock()
        self._arrival = select.poll()
        self._arrival.register(connection, select.POLLIN)

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

    def has_message(self) -> bool:
        """Whether a message, or the end, can be read. The rest of a message follows its first bytes."""
        return bool(self._arrival.poll(0))

    def read(self) -> Message | None:
        """The next message with its tensors and files; nothing at the end."""
        files: list[int] = []
        count = 0
        while True:
            lengths = self._exactly(_LENGTHS.size, files)
            if lengths is None:
                return None
            header, tensors = _LENGTHS.unpack(lengths)
            text, data = self._exactly(header), self._exactly(tensors)
            if text is None or data is None:
                return None
            fields: dict[str, Any] = json.loads(bytes(text))
            if fields["type"] != "file":
                return Message(fields, data, files)
            count += 1
            if len(files) != count:  # the files after it would be taken for those of other inputs
                raise OSError("a file came without its descriptor: this process may have no more of them")

    def _exactly(self, length: int, files: list[int] | None = None) -> memoryview | None:
        """`length` bytes; nothing at the end. Descriptors that come with them are added to `files`."""
        data = memoryview(bytearray(length))
        got = 0
        while got < length:
            try:
                more = self._socket.recv_into(data[got:]) if files is None else self._receive(data[got:], files)
            except ConnectionResetError:
                return None
            if more == 0:
                return None
            got += more
        return data

    def _receive(self, data: memoryview, files: list[int]) -> int:
        space, flags = socket.CMSG_SPACE(_DESCRIPTOR.size), socket.MSG_CMSG_CLOEXEC
        got, along, _, _ = self._socket.recvmsg_into([data], space, flags)
        for level, kind, descriptors in along:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                files.extend(array("i", descriptors))
        return got

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
