"""Tensors of the protocol as values of Python, and back."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

try:
    import numpy
except ImportError:  # arrays are memoryviews then
    numpy = None  # type: ignore[assignment]

TEXTS = "BYTES"

# Formats of `struct`. BF16 has none: it is 16 bits.
FORMATS = {
    "FP64": "d",
    "FP32": "f",
    "FP16": "e",
    "BF16": "H",
    "INT64": "q",
    "INT32": "i",
    "INT16": "h",
    "INT8": "b",
    "UINT64": "Q",
    "UINT32": "I",
    "UINT16": "H",
    "UINT8": "B",
    "BOOL": "?",
}
_DATATYPES = {of: name for name, of in FORMATS.items() if name != "BF16"}  # "H" is UINT16
_SCALARS: dict[type, str] = {str: TEXTS, bytes: TEXTS, float: "FP32", int: "INT64", bool: "BOOL"}


class Spec(NamedTuple):
    """A tensor as a model declares it."""

    name: str
    datatype: str
    shape: list[int]
    scalar: type | None
    """Type of its only element, if it was declared by a type."""

    @classmethod
    def of(cls, name: str, declared: Any) -> Spec:
        for scalar, datatype in _SCALARS.items():
            if declared is scalar:
                return cls(name, datatype, [1], scalar)
        try:
            datatype, shape = declared
            shape = [int(size) for size in shape]
        except (TypeError, ValueError):
            raise TypeError(
                f"tensor {name!r}: must be declared as str, bytes, float, int, bool or (datatype, shape), got {declared!r}"
            ) from None
        if datatype not in FORMATS and datatype != TEXTS:
            have = ", ".join([*FORMATS, TEXTS])
            raise TypeError(f"tensor {name!r}: datatype must be one of {have}, got {datatype!r}")
        return cls(name, datatype, shape, None)

    def header(self) -> dict[str, Any]:
        return {"name": self.name, "datatype": self.datatype, "shape": self.shape}

    def decode(self, shape: list[int], data: memoryview) -> Any:
        """The value of an input."""
        if self.datatype == TEXTS:
            texts = list(_texts(data))
            if len(texts) != math.prod(shape):  # of a region, which its client may change at any time
                raise ValueError(f"tensor {self.name!r}: must have {math.prod(shape)} texts, got {len(texts)}")
            if self.scalar is not None:
                return texts[0].decode() if self.scalar is str else texts[0]
            return _shaped(texts, shape)
        if self.scalar is not None:
            return struct.unpack("<" + FORMATS[self.datatype], data)[0]
        return _array(self.datatype, shape, data)

    def encode(self, value: Any) -> tuple[dict[str, Any], memoryview]:
        """The header of an output, and its bytes."""
        if self.datatype == TEXTS:
            shape, flat = _flat(value)
            data = b"".join(_text(self.name, text) for text in flat)
        elif numpy is not None and self.datatype != "BF16" and self.scalar is None:
            array = numpy.asarray(value, dtype=dtype_of(self.datatype))
            self._check_kind(array, numpy.asarray(value).dtype, value)
            shape, data = list(array.shape), array.tobytes()
        elif isinstance(value, memoryview) and value.format == FORMATS[self.datatype]:
            shape, data = list(value.shape or []), value.tobytes()
        else:
            shape, flat = _flat(value)
            data = struct.pack(f"<{len(flat)}{FORMATS[self.datatype]}", *flat)
        if self.scalar is not None:
            shape = [1]
        header = {"name": self.name, "datatype": self.datatype, "shape": shape, "bytes": len(data)}
        return header, memoryview(data)

    def _check_kind(self, made: Any, found: Any, value: Any) -> None:
        """Refuses values that NumPy would cut to integers, and None and texts, which it takes for numbers.
        `made` is the array, and `found` the type that NumPy finds in `value`."""
        is_real = made.dtype.kind == "f"
        if made.size == 0 or found.kind in ("biuf" if is_real else "biu"):
            return
        numbers: tuple[type, ...] = (int, float) if is_real else (int,)
        # Integers that int64 and uint64 can't both hold are floats for NumPy.
        if not all(isinstance(each, numbers) for each in _flat(value)[1]):
            raise TypeError(f"tensor {self.name!r}: must be {self.datatype}, got {found}")


def dtype_of(datatype: str) -> Any:
    """NumPy's type, by its size: the letters "q" and "Q" are `longlong` and not `int64`."""
    assert numpy is not None
    return numpy.dtype(numpy.dtype("<" + FORMATS[datatype]).str)


def datatype_of(value: Any) -> str:
    """The datatype of an array or nested lists."""
    if numpy is not None:
        array = numpy.asarray(value)
        if array.dtype.kind in "OSU":
            return TEXTS
        for of, name in _DATATYPES.items():
            if numpy.dtype(of) == array.dtype:
                return name
        raise TypeError(f"no datatype for {array.dtype}")
    if isinstance(value, memoryview):
        return _DATATYPES[value.format]
    return TEXTS


def _texts(data: memoryview) -> Iterator[bytes]:
    at = 0
    while at < len(data):
        begin, end = at + 4, at + 4 + int.from_bytes(data[at : at + 4], "little")
        if end > len(data):
            raise ValueError("each text must follow its length")
        yield bytes(data[begin:end])
        at = end


def _text(name: str, text: Any) -> bytes:
    if isinstance(text, str):
        text = text.encode()
    if not isinstance(text, (bytes, bytearray, memoryview)):
        raise TypeError(f"tensor {name!r}: must be str or bytes, got {type(text).__name__}")
    return struct.pack("<I", len(text)) + bytes(text)


def _array(datatype: str, shape: list[int], data: memoryview) -> Any:
    if numpy is not None:
        return numpy.frombuffer(data, dtype=dtype_of(datatype)).reshape(shape)
    if math.prod(shape) == 0 or datatype == "FP16":
        flat = list(struct.unpack(f"<{math.prod(shape)}{FORMATS[datatype]}", data))
        return _shaped(flat, shape)
    cast: Any = data.cast("B").cast  # its type wants a literal
    return cast(FORMATS[datatype], shape)


def _shaped(flat: list[Any], shape: list[int]) -> Any:
    """The elements as an array, or as nested lists without NumPy."""
    if numpy is not None:
        array = numpy.empty(len(flat), dtype=object)
        array[:] = flat
        return array.reshape(shape)
    for size in reversed(shape[1:]):
        flat = [flat[at : at + size] for at in range(0, len(flat), size or 1)]
    return flat


def _flat(value: Any) -> tuple[list[int], list[Any]]:
    """Shape and elements of nested lists, arrays or one element."""
    if numpy is not None and isinstance(value, numpy.ndarray):
        return list(value.shape), value.ravel().tolist()  # also if a size is 0
    value = value.tolist() if hasattr(value, "tolist") else value
    if not isinstance(value, (list, tuple)):
        return [], [value]
    parts = [_flat(part) for part in value]
    shapes = [shape for shape, _ in parts]
    if any(shape != shapes[0] for shape in shapes):
        raise ValueError("lists must have the same length at each depth")
    return [len(parts), *(shapes[0] if shapes else [])], [one for _, flat in parts for one in flat]
