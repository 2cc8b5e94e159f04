"""Networks: names, shapes and types of inputs and outputs, and memory for several requests."""

from __future__ import annotations

import operator
import os
import sys
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from . import _reef

if TYPE_CHECKING:
    import numpy

    from ._state import State

# NumPy is imported at its first use: it takes longer than all of this.

# NumPy has no bfloat16.
_DTYPES = {"bfloat16": "uint16"}


class Port(NamedTuple):
    """An input or output of a network. Requests decide about a size of -1.

    `dtype` is the name of a NumPy type. A bfloat16 tensor has the bits of its numbers: `uint16`.
    Texts are `str`: outputs are arrays of it, inputs also of objects that are str or bytes.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str


def ports_of(described: list[tuple[str, list[int], str]]) -> tuple[Port, ...]:
    return tuple(Port(name, tuple(shape), _DTYPES.get(kind, kind)) for name, shape, kind in described)


class Source(NamedTuple):
    """A network to load: a name or a path, or the bytes and the name of an ONNX file."""

    what: str | os.PathLike[str] | tuple[bytes, str]
    batch: int | None = None
    input_size: int | None = None
    shape: Mapping[str, Sequence[int]] | None = None
    weights: str | os.PathLike[str] | None = None
    seed: int = 0
    scales: str | os.PathLike[str] | None = None
    loop_bound: int | None = None


def source_of(
    what: str | os.PathLike[str] | bytes,
    batch: int | None,
    input_size: int | None,
    shape: Mapping[str, Sequence[int]] | None,
    weights: str | os.PathLike[str] | None,
    seed: int,
    scales: str | os.PathLike[str] | None,
    loop_bound: int | None,
) -> Source:
    found = (what, "model") if isinstance(what, bytes) else _path("what", what)
    sizes = None if shape is None else {name: _sizes(name, each) for name, each in shape.items()}
    return Source(
        found,
        None if batch is None else whole("batch", batch),
        None if input_size is None else whole("input_size", input_size),
        sizes,
        None if weights is None else _path("weights", weights),
        whole("seed", seed),
        None if scales is None else _path("scales", scales),
        None if loop_bound is None else whole("loop_bound", loop_bound),
    )


_MAX = 2**64


def whole(name: str, value: Any, least: int = 0, most: int = _MAX - 1) -> int:
    """An argument that is a whole number which the library can hold."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an int, got {type(value).__name__}") from None
    if not least <= number <= most:
        raise _reef.InvalidError(f"{name} must be from {least} to {most}, got {number}")
    return number


def weight_of(value: Any) -> int:
    return whole("weight", value, 1, 2**32 - 1)


def priority_of(value: Any) -> int:
    return whole("priority", value, -(2**31), 2**31 - 1)


def _sizes(name: str, sizes: Any) -> list[int]:
    """Sizes that `shape` has for a name."""
    place = f"shape[{name!r}]"
    if isinstance(sizes, (str, bytes)) or not hasattr(sizes, "__iter__"):
        raise TypeError(f"{place} must be a sequence of ints, as [128], got {sizes!r}")
    return [whole(place, size) for size in sizes]


def _path(name: str, value: Any) -> str | os.PathLike[str]:
    """An argument that names a file, or a network."""
    if not isinstance(value, (str, os.PathLike)):
        also = " or the bytes of an ONNX file" if name == "what" else ""
        raise TypeError(f"{name} must be a name or a path{also}, got {type(value).__name__}")
    return value


def check_process(process: int) -> None:
    """Refuses an object of `process` in a forked child: a thread of the parent may have had its lock."""
    if process != os.getpid():
        raise _reef.Error(
            f"opened in process {process}, of which this one is a fork: open it again here"
        )


_Shapes = tuple[tuple[str, tuple[int, ...]], ...]

# Values of a switch, in the place of its shape.
_OFF, _ON = (0,), (1,)


def _shape(port: Port, value: Any) -> tuple[int, ...]:
    """The shape of an input, which its port must allow."""
    shape = getattr(value, "shape", None)
    if shape is None:
        kind = type(value).__name__
        raise _reef.InvalidError(f"input {port.name}: must be an array with a shape, got {kind}")
    shape = tuple(shape)
    if len(shape) != len(port.shape) or any(
        want not in (-1, size) for size, want in zip(shape, port.shape)
    ):
        raise _reef.InvalidError(f"input {port.name}: shape must be {port.shape}, got {shape}")
    return shape


class Slot:
    """Memory of one request, which its user fills and reads in place. Made by `Network.slot`.

    `inputs` and `outputs` are arrays of the network's shapes, with 1 or another usual size for each
    that is open, which every request of the slot uses:
    what a request leaves in `outputs` is overwritten by the next. The memory is the slot's until it
    and all that was made from its arrays are dropped.
    """

    def __init__(self, slot: _reef.Slot) -> None:
        self._slot = slot
        self.inputs: tuple[_reef.Array, ...] = slot.inputs()
        self.outputs: tuple[_reef.Array, ...] = slot.outputs()

    def __repr__(self) -> str:
        return f"<reef.Slot {self.inputs} -> {self.outputs}>"


class Network:
    """A network on a device.

    Each request that is on its way has memory of its own. That of the first one is there from the
    beginning, and that of others is made when they are submitted, up to `instances`.

    A size of -1 of an input is that of the arrays of each request. The network is prepared for them
    when a request first has them, with memory of its own for requests, and up to `SHAPES` of these
    are kept. So it is for both values of an input that decides about shapes, if that is one truth
    value, as `use_cache_branch` of a decoder.
    """

    SHAPES = 16
    """Number of sets of sizes for which it is kept prepared."""

    def __init__(self, network: _reef.Network) -> None:
        self._network = network
        self.name: str = network.name
        self.inputs: tuple[Port, ...] = ports_of(network.inputs())
        self.outputs: tuple[Port, ...] = ports_of(network.outputs())
        self._is_open = network.is_open()
        self._switches = frozenset(network.switches())
        usual = {name: tuple(shape) for name, shape in network.shapes()}
        self._usual: _Shapes = tuple(
            (port.name, usual.get(port.name, _OFF)) for port in self.inputs
        )
        self._prepared: OrderedDict[_Shapes, _reef.Network] = OrderedDict()
        self._process, self._lock = os.getpid(), threading.Lock()

    def __repr__(self) -> str:
        return f"<reef.Network {self.name}: {self.inputs} -> {self.outputs}>"

    def _for(
        self, values: tuple[Any, ...], named: dict[str, Any]
    ) -> tuple[_reef.Network, tuple[Any, ...], dict[str, Any]]:
        """The network for these arrays, and those that it takes: not a switch that it was prepared for."""
        if not self._switches:
            return self._sized(values, named), values, named
        names = [port.name for port in self.inputs]
        values = in_order(self.name, names, values, named)
        network = self._sized(values, {})
        takes = {name for name, _ in network.shapes()}
        return network, tuple(value for name, value in zip(names, values) if name in takes), {}

    def _sized(self, values: Sequence[Any], named: Mapping[str, Any]) -> _reef.Network:
        """The network for the sizes of these arrays, which may lack some: then it refuses them."""
        if not self._is_open and not self._switches:
            return self._network
        check_process(self._process)
        found = {port.name: value for port, value in zip(self.inputs, values)} | dict(named)
        shapes = tuple(
            (port.name, self._key(port, found[port.name])) for port in self.inputs if port.name in found
        )
        if shapes == self._usual or len(shapes) < len(self.inputs):
            return self._network
        with self._lock:
            prepared = self._prepared.pop(shapes, None)
            if prepared is not None:
                self._prepared[shapes] = prepared  # the last is the one that was used last
                return prepared
        prepared = self._network.resized(
            {name: list(shape) for name, shape in shapes if name not in self._switches},
            {name: shape == _ON for name, shape in shapes if name in self._switches},
        )
        with self._lock:
            prepared = self._prepared.setdefault(shapes, prepared)
            dropped = self._prepared.popitem(last=False) if len(self._prepared) > self.SHAPES else None
        del dropped  # without the lock: its memory is freed
        return prepared

    def _key(self, port: Port, value: Any) -> tuple[int, ...]:
        """The shape of an input, or the value of a switch."""
        if port.name not in self._switches:
            return _shape(port, value)
        return _ON if _checked(port, value).any() else _OFF

    def state(
        self, pairs: Mapping[str, str], first: Mapping[str, Any] | None = None
    ) -> State:
        """Keeps outputs of each request as inputs of the next one, on the device.

        `pairs` has the output for each such input, `first` the arrays of the first request, which are
        copied. Without one it is zeros, if the input's sizes are fixed. A network can have several states at once,
        one for each sequence.
        """
        from ._state import State

        return State(self, pairs, first)

    def slot(self, where: str | None = None) -> Slot:
        """Takes memory of one request, to be filled in place: that of the device, or "host" for memory
        of the host that the device copies from. It counts as one of `instances` until it is dropped.

        Raises BusyError if all instances are used, UnsupportedError if the device's memory can't be
        used in place: then or on the CPU, there is no "device" apart from the host. So it is if an
        input of one truth value decides about shapes.
        """
        if self._switches:
            name = min(self._switches)
            raise _reef.UnsupportedError(
                f"{self.name}: input {name!r} decides about shapes, so it is given with each request"
            )
        if where not in (None, "host", "device"):
            raise _reef.InvalidError(f'where must be "host", "device" or None, got {where!r}')
        return Slot(self._network.slot(None if where is None else where == "host"))


class TextTable:
    """Texts that a network knows. Its tensors hold their places."""

    def __init__(self, texts: list[str]) -> None:
        import numpy

        self._all = numpy.array(texts, dtype=object)
        self._places = {text: place for place, text in enumerate(texts)}

    def texts(self, places: numpy.ndarray[Any, Any]) -> numpy.ndarray[Any, Any]:
        """The texts at these places, which are those of an output."""
        import numpy

        return numpy.asarray(self._all[places], dtype=str)

    def places(
        self, name: str, shape: tuple[int, ...], value: Any
    ) -> numpy.ndarray[Any, Any]:
        """The places of an input's texts. All that are unknown have the one behind the last."""
        import numpy

        if (masks := sys.modules.get("numpy.ma")) and masks.is_masked(value):
            raise _reef.InvalidError(f"input {name}: masked values must be filled first: call filled()")
        array = value if isinstance(value, numpy.ndarray) else numpy.asarray(value, dtype=object)
        if array.dtype.kind not in "OSTU" or array.shape != shape:
            raise _reef.InvalidError(
                f"input {name} must be str {shape}, got {array.dtype} {array.shape}"
            )
        found = [self._place(name, text) for text in array.ravel().tolist()]
        return numpy.array(found, dtype="int64").reshape(shape)

    def _place(self, name: str, text: Any) -> int:
        if isinstance(text, bytes):
            text = text.decode(errors="surrogateescape")  # what is no text is unknown
        if not isinstance(text, str):
            raise _reef.InvalidError(f"input {name} must have texts, got {type(text).__name__}")
        return self._places.get(text, len(self._places))


def in_order(
    name: str, names: Sequence[str], values: Sequence[Any], named: Mapping[str, Any]
) -> tuple[Any, ...]:
    """Returns the inputs of a network in its order."""
    found = dict(zip(names, values))
    for key, value in named.items():
        if key not in names or key in found:
            raise _reef.InvalidError(f"{name}: no further input {key!r} (have: {list(names)})")
        found[key] = value
    if len(values) > len(names) or len(found) < len(names):
        given = len(values) + len(named)
        raise _reef.InvalidError(f"{name}: {len(names)} inputs {list(names)}, got {given}")
    return tuple(found[key] for key in names)


def checked(
    name: str, shape: tuple[int, ...], dtype: str, value: Any
) -> numpy.ndarray[Any, Any]:
    """Returns an input as an array in one piece, of its port's type and shape."""
    return _checked(Port(name, shape, dtype), value)


def arrays_of(
    name: str, ports: Sequence[Port], values: Sequence[Any], named: Mapping[str, Any]
) -> list[numpy.ndarray[Any, Any]]:
    """Returns the inputs of a network as contiguous arrays, in the order of its ports.

    Each must have its port's type and shape; a size of -1 stands for any.
    """
    if named or len(values) != len(ports):
        values = in_order(name, [port.name for port in ports], values, named)
    return [_checked(port, value) for port, value in zip(ports, values)]


def _checked(port: Port, value: Any) -> numpy.ndarray[Any, Any]:
    import numpy

    if not isinstance(value, numpy.ndarray):
        value = _array(port, value)
    elif type(value) is not numpy.ndarray and (masks := sys.modules.get("numpy.ma")) and masks.is_masked(value):
        raise _reef.InvalidError(f"input {port.name}: masked values must be filled first: call filled()")
    if value.shape == port.shape and value.dtype == port.dtype:  # as in most calls
        return _in_one_piece(value)
    fits = len(value.shape) == len(port.shape) and all(
        want in (-1, size) for size, want in zip(value.shape, port.shape)
    )
    if value.dtype != port.dtype or not fits:
        raise _reef.InvalidError(
            f"input {port.name} must be {port.dtype} {port.shape}, "
            f"got {value.dtype} {value.shape}"
        )
    return _in_one_piece(value)


def _in_one_piece(value: numpy.ndarray[Any, Any]) -> numpy.ndarray[Any, Any]:
    """The array, or a copy, whose values lie one after the other and aligned. It keeps its shape, where
    `numpy.ascontiguousarray` gives a dimension to an array without any."""
    import numpy

    value = numpy.asarray(value)  # no matrix or the like
    flags = value.flags
    return value if flags.c_contiguous and flags.aligned else numpy.array(value, order="C")


def _array(port: Port, value: Any) -> numpy.ndarray[Any, Any]:
    import numpy

    try:
        if hasattr(value, "__dlpack__"):
            return _shared(value)
        return _numbers(port, value)
    except _reef.Error:
        raise
    except Exception as error:  # of any kind: the library of the array has the word
        kind = type(value).__name__
        why = "inputs by name are keywords, **inputs" if isinstance(value, dict) else error
        raise _reef.InvalidError(
            f"input {port.name}: {kind} must be an array in the host's memory: {why}"
        ) from error


def _numbers(port: Port, value: Any) -> numpy.ndarray[Any, Any]:
    """Numbers that are not an array yet, as lists. NumPy would cut floats to fit integers, and take
    None and texts for numbers."""
    import numpy

    made = numpy.asarray(value, dtype=port.dtype)
    if made.size == 0 or made.dtype.kind == "O":
        return made
    found = numpy.asarray(value).dtype
    if found.kind in ("biuf" if made.dtype.kind == "f" else "biu"):
        return made
    # Integers that int64 and uint64 can't both hold are floats for NumPy.
    integers = (int, numpy.integer)
    if not all(isinstance(each, integers) for each in numpy.asarray(value, dtype=object).flat):
        raise TypeError(f"values must be {port.dtype}, got {found}")
    return made


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
