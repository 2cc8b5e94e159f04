"""Networks: names, shapes and types of inputs and outputs, and memory for several requests."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from . import _reef

if TYPE_CHECKING:
    import numpy

# NumPy is imported at its first use: it takes longer than all of this.

# NumPy has no bfloat16.
_DTYPES = {"bfloat16": "uint16"}


class Port(NamedTuple):
    """An input or output of a network.

    `dtype` is the name of a NumPy type. A bfloat16 tensor has the bits of its numbers: `uint16`.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str


def _ports(described: list[tuple[str, list[int], str]]) -> tuple[Port, ...]:
    return tuple(Port(name, tuple(shape), _DTYPES.get(kind, kind)) for name, shape, kind in described)


class Network:
    """A network on a device.

    Each request that is on its way has memory of its own. That of the first one is there from the
    beginning, and that of others is made when they are submitted, up to `instances`.
    """

    def __init__(self, first: _reef.Network, instances: int) -> None:
        if instances < 1:
            raise _reef.InvalidError(f"instances must be at least 1, got {instances}")
        self._first = first
        self._most = instances
        self._made = 1
        self._free = [first]
        self._left: list[tuple[_reef.Network, _reef.Request]] = []
        self._lock = threading.Lock()
        self.name: str = first.name
        self.inputs: tuple[Port, ...] = _ports(first.inputs())
        self.outputs: tuple[Port, ...] = _ports(first.outputs())

    def __repr__(self) -> str:
        return f"<reef.Network {self.name}: {self.inputs} -> {self.outputs}>"

    def _take(self) -> _reef.Network:
        """Memory that no request has."""
        with self._lock:
            self._look_at_left()
            if self._free:
                return self._free.pop()
            if self._made == self._most:
                raise _reef.BusyError(
                    f"{self._most} requests of {self.name} are on their way: wait for one, or load "
                    "it with more instances"
                )
            self._made += 1
        try:
            return self._first.instance()
        except BaseException:
            with self._lock:
                self._made -= 1
            raise

    def _give(self, instance: _reef.Network) -> None:
        with self._lock:
            self._free.append(instance)

    def _leave(self, instance: _reef.Network, request: _reef.Request) -> None:
        """Gives memory back when a request that nobody waits for has ended."""
        with self._lock:
            self._left.append((instance, request))

    def _look_at_left(self) -> None:
        if not self._left:
            return
        left = []
        for instance, request in self._left:
            try:
                has_ended = request.wait(0.0) is not None
            except _reef.Error:
                has_ended = True
            if has_ended:
                self._free.append(instance)
            else:
                left.append((instance, request))
        self._left = left

    def _write(
        self, instance: _reef.Network, values: Sequence[Any], named: Mapping[str, Any]
    ) -> None:
        for index, array in enumerate(arrays_of(self.name, self.inputs, values, named)):
            instance.write(index, array.reshape(-1).view("uint8"))

    def _read(self, instance: _reef.Network) -> Any:
        arrays = tuple(
            instance.read(index).view(port.dtype).reshape(port.shape)
            for index, port in enumerate(self.outputs)
        )
        return arrays[0] if len(arrays) == 1 else arrays


def arrays_of(
    name: str, ports: Sequence[Port], values: Sequence[Any], named: Mapping[str, Any]
) -> list[numpy.ndarray[Any, Any]]:
    """Returns the inputs of a network as contiguous arrays, in the order of its ports.

    Each must have its port's type and shape; a size of -1 stands for any.
    """
    if not named and len(values) == len(ports):
        return [_checked(port, value) for port, value in zip(ports, values)]
    names = [port.name for port in ports]
    found = dict(zip(names, values))
    for key, value in named.items():
        if key not in names or key in found:
            raise _reef.InvalidError(f"{name}: no further input {key!r} (have: {names})")
        found[key] = value
    if len(values) > len(names) or len(found) < len(names):
        given = len(values) + len(named)
        raise _reef.InvalidError(f"{name}: {len(names)} inputs {names}, got {given}")
    return [_checked(port, found[port.name]) for port in ports]


def _checked(port: Port, value: Any) -> numpy.ndarray[Any, Any]:
    import numpy

    if not isinstance(value, numpy.ndarray):
        value = _array(port, value)
    if value.shape == port.shape and value.dtype == port.dtype:  # as in most calls
        return numpy.ascontiguousarray(value)
    fits = len(value.shape) == len(port.shape) and all(
        want in (-1, size) for size, want in zip(value.shape, port.shape)
    )
    if value.dtype != port.dtype or not fits:
        raise _reef.InvalidError(
            f"input {port.name} must be {port.dtype} {port.shape}, "
            f"got {value.dtype} {value.shape}"
        )
    return numpy.ascontiguousarray(value)


def _array(port: Port, value: Any) -> numpy.ndarray[Any, Any]:
    import numpy

    try:
        if hasattr(value, "__dlpack__"):
            return _shared(value)
        return numpy.asarray(value, dtype=port.dtype)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        kind = type(value).__name__
        raise _reef.InvalidError(
            f"input {port.name}: {kind} must be an array in the host's memory: {error}"
        ) from error


_HOST = 1  # kDLCPU


def _shared(value: Any) -> numpy.ndarray[Any, Any]:
    """The memory of an array of another library. Some have no DLPack for some types, as booleans."""
    import numpy

    try:
        return numpy.from_dlpack(value)
    except (BufferError, RuntimeError, TypeError):
        if hasattr(value, "__array__") and value.__dlpack_device__()[0] == _HOST:
            return numpy.asarray(value)
        raise
