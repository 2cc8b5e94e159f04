"""Inputs in device memory of clients, which this process opens by their handles."""

from __future__ import annotations

import contextlib
import ctypes
import weakref
from collections.abc import Iterator, Mapping
from typing import Any

from ._tensors import Spec

# Types of the array interface. BF16 has none there: it is 16 bits.
_TYPES = {
    "FP64": "<f8",
    "FP32": "<f4",
    "FP16": "<f2",
    "BF16": "<u2",
    "INT64": "<i8",
    "INT32": "<i4",
    "INT16": "<i2",
    "INT8": "|i1",
    "UINT64": "<u8",
    "UINT32": "<u4",
    "UINT16": "<u2",
    "UINT8": "|u1",
    "BOOL": "|b1",
}
_LAZY_PEER_ACCESS = 1


class DeviceArray:
    """An input in device memory of its client, without a copy. It is for a model with `device_memory`.

    `torch.as_tensor(array, device="cuda")`, `cupy.asarray(array)` and others read it by
    `__cuda_array_interface__`. The memory is open until neither this nor an array that was made of it is there any
    more. Keep none after the answer: the client may write or free the memory then. A model only reads it."""

    datatype: str
    """Datatype of the protocol, such as "FP32"."""
    shape: tuple[int, ...]
    address: int
    """Address in the device's memory, or 0 if the array is empty."""

    def __init__(self, driver: Driver, place: Mapping[str, Any], spec: Spec, shape: list[int]) -> None:
        if spec.scalar is not None:
            raise ValueError(f"tensor {spec.name!r}: one element must not be in device memory")
        self.datatype, self.shape, self.address = spec.datatype, tuple(shape), 0
        if 0 not in shape:
            opened = driver.open(bytes.fromhex(place["handle"]))
            weakref.finalize(self, driver.close, opened).atexit = False  # the end of the process closes it
            self.address = opened + place["offset"]

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """Place, type and shape, as version 3 of the interface has them."""
        place = (self.address, False)  # PyTorch refuses arrays that are for reading alone
        return {"shape": self.shape, "typestr": _TYPES[self.datatype], "data": place, "strides": None, "version": 3}


class _Handle(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_ubyte * 64)]


class Driver:
    """Calls of the driver, in the primary context of the model's device, which is the one of PyTorch."""

    def __init__(self, device: str, gpu: str | None) -> None:
        self._device, self._gpu = device, gpu
        self._library: Any = None
        self._context = ctypes.c_void_p()

    def open(self, handle: bytes) -> int:
        """The address of another process's memory. It must be closed as many times as it is opened."""
        self._start()
        address = ctypes.c_uint64()
        with self._current():
            given = _Handle.from_buffer_copy(handle)
            self._call("cuIpcOpenMemHandle_v2", ctypes.byref(address), given, ctypes.c_uint(_LAZY_PEER_ACCESS))
        return address.value

    def close(self, address: int) -> None:
        """Closes memory. The driver's refusal changes nothing for the caller."""
        with contextlib.suppress(RuntimeError), self._current():
            self._call("cuIpcCloseMemHandle", ctypes.c_uint64(address))

    def _start(self) -> None:
        if self._context:
            return
        self._library = ctypes.CDLL("libcuda.so.1")  # that of `reef exec`, if the program is a guest
        self._call("cuInit", ctypes.c_uint(0))
        device = self._find()
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(self._context), device)

    def _find(self) -> ctypes.c_int:
        """The device by its identity: its number may be another one in this process."""
        device, count, uuid = ctypes.c_int(), ctypes.c_int(), (ctypes.c_ubyte * 16)()
        if self._gpu is None:
            self._call("cuDeviceGet", ctypes.byref(device), ctypes.c_int(int(self._device.rpartition(":")[2])))
            return device
        self._call("cuDeviceGetCount", ctypes.byref(count))
        for number in range(count.value):
            self._call("cuDeviceGet", ctypes.byref(device), ctypes.c_int(number))
            self._call("cuDeviceGetUuid_v2", ctypes.byref(uuid), device)
            if bytes(uuid).hex() == self._gpu:
                return device
        raise RuntimeError(f"{self._device} must be visible to the program, got {count.value} others")

    @contextlib.contextmanager
    def _current(self) -> Iterator[None]:
        """Encloses calls in the context. The thread has the one before afterwards."""
        before = ctypes.c_void_p()
        self._call("cuCtxGetCurrent", ctypes.byref(before))
        self._call("cuCtxSetCurrent", self._context)
        try:
            yield
        finally:
            self._call("cuCtxSetCurrent", before)

    def _call(self, name: str, *arguments: Any) -> None:
        code = getattr(self._library, name)(*arguments)
        if code:
            raise RuntimeError(f"{name}: code {code}")
