"""Devices and their clients."""

from __future__ import annotations

import io
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from . import _reef
from ._closing import Closing
from ._network import Network, Slot, priority_of, source_of, weight_of, whole
from ._request import Future


class Stats(NamedTuple):
    """Counters of a device since it was opened.

    `preemptions` are those of best-effort work. `rt_finished`: real-time requests that have finished.
    `padded_launches`: real-time kernels that were to have best-effort blocks next to them. On a GPU that
    caps best-effort queues, it is the number of times that it did. `padded_blocks`: such blocks that were
    planned. `retries`: times that the device refused to stop or to restore best-effort work, and was
    asked again. `abandoned`: best-effort clients whose work did not end in time.
    """

    preemptions: int
    rt_finished: int
    padded_launches: int
    padded_blocks: int
    retries: int
    abandoned: int


def devices() -> dict[str, list[str] | str]:
    """Returns the names of all devices by backend; or, as a text, why a backend has none."""
    return {
        backend: names if names is not None else str(why)
        for backend, names, why in _reef.devices()
    }


def schedulers() -> list[str]:
    """Returns the names of all schedulers."""
    return _reef.schedulers()


def open(name: str = "auto", scheduler: str = "reef", *, reserve: float | None = None) -> Device:
    """Opens a device: "cpu", "cuda:0", "hip:1", or "auto" for the first GPU and else the CPU. Several
    as one are opened by `open_cluster`.

    With a `reserve`, from 0 to less than 1, best-effort work keeps that share of the device, and
    real-time clients take turns and may have budgets: `Device.real_time(rate=…)`.

    Raises NotFoundError if there is no such device or scheduler, InvalidError for an option of the
    device or a reserve that can't be, UnsupportedError if the scheduler preempts more deeply than the
    device can.
    """
    return Device(_reef.open(name, scheduler, reserve))


class Usage(NamedTuple):
    """Use of a device by a client. `served`: device time in seconds; best-effort time is booked when
    the scheduler makes its next pass. Of real-time clients alone:
    `requests` that have ended, and how many of them were `late`, begun with no budget left."""

    served: float
    requests: int | None
    late: int | None


class _Client(Closing):
    def __init__(self, client: _reef.Client, device: Device) -> None:
        self._client = client
        self._device = device  # which ends its clients' work when it is dropped
        self._output = _Output(device)

    def __repr__(self) -> str:
        return f"<reef.{type(self).__name__} on {self._device.name}>"

    def close(self) -> None:
        """Ends the client. Requests of a real-time client go on. Those of a best-effort client end with
        CancelledError, and their kernels that run are waited for."""
        self._client.close()

    def usage(self) -> Usage:
        """Returns its use of the device so far."""
        return Usage(*self._client.usage())

    def _submit(
        self,
        what: Network | Slot,
        values: tuple[Any, ...],
        named: dict[str, Any],
        deadline: float | None,
        out: str | None,
    ) -> Future:
        if isinstance(what, Network):
            network, values, named = what._for(values, named)
            request = self._client.submit(network, values, named, deadline, out)
        else:
            slot = _slot(what, out)
            request = self._client.submit_slot(slot, values, named, deadline)
        return Future(self._output, request, request)

    def _run(
        self,
        what: Network | Slot,
        values: tuple[Any, ...],
        named: dict[str, Any],
        deadline: float | None,
        out: str | None,
    ) -> Any:
        if isinstance(what, Network):
            network, values, named = what._for(values, named)
            return self._client.run(network, values, named, deadline, out)
        return self._client.run_slot(_slot(what, out), values, named, deadline)


def _slot(what: Any, out: str | None) -> _reef.Slot:
    if not isinstance(what, Slot):
        raise TypeError(f"what must be a Network or a Slot of a device, got {type(what).__name__}")
    if out is not None:
        raise _reef.InvalidError(f"out must be None for a slot, which has its outputs, got {out!r}")
    return what._slot


class _Output:
    """Outputs of requests to a device, which is kept for them."""

    def __init__(self, device: Device) -> None:
        self._device = device

    def _read(self, request: _reef.Request) -> Any:
        return request.output()

    def _give(self, request: _reef.Request) -> None:
        pass

    def _leave(self, instance: _reef.Request, request: _reef.Request) -> None:
        pass


class RealTime(_Client):
    """A real-time client: its requests start at once, and one after the other."""

    def __enter__(self) -> RealTime:
        return self

    def submit(
        self,
        what: Network | Slot,
        *inputs: Any,
        deadline: float | None = None,
        out: str | None = None,
        **named: Any,
    ) -> Future:
        """Submits one inference of a network or of a slot. Inputs come in the network's order, or by
        their names.

        An input is a NumPy array of its port's shape and type, or anything with DLPack on the host
        or on the network's own GPU. It is copied before this returns; one on the GPU is not copied
        through the host. The request waits for the work that makes it, in its library's current
        stream, before this returns. `deadline`: seconds from now, which the scheduler `deadline` orders
        requests by; a late one goes on. `out`: "host" for NumPy arrays,
        "device" for `Array`s, None for where the inputs are.

        The inputs of a slot are in its memory already; one that is given is waited for, and copied
        unless it is that memory. It may not be the memory of an earlier input that is replaced. Without
        any, a GPU's default stream is waited for.

        Raises InvalidError for a wrong input, BusyError if all instances of the network are used.
        """
        return self._submit(what, inputs, named, deadline, out)

    def run(
        self,
        what: Network | Slot,
        *inputs: Any,
        deadline: float | None = None,
        out: str | None = None,
        **named: Any,
    ) -> Any:
        """Submits one inference and waits for its output. See `submit` and `Future.result`."""
        return self._run(what, inputs, named, deadline, out)


class BestEffort(_Client):
    """A best-effort client: its requests have what real-time ones leave, and lose nothing. They run
    one after the other, in the order in which they were submitted."""

    def __enter__(self) -> BestEffort:
        return self

    def submit(
        self, what: Network | Slot, *inputs: Any, out: str | None = None, **named: Any
    ) -> Future:
        """Submits one inference and returns at once. See `RealTime.submit`."""
        return self._submit(what, inputs, named, None, out)

    def run(
        self, what: Network | Slot, *inputs: Any, out: str | None = None, **named: Any
    ) -> Any:
        """Submits one inference and waits for its output."""
        return self._run(what, inputs, named, None, out)


class Device(Closing):
    """An open device. Its work is ordered by one scheduler."""

    def __init__(self, device: _reef.Device) -> None:
        self._device = device
        info = device.info()
        self.name: str = info["name"]
        """Name of the hardware."""
        self.units: int = info["units"]
        """Number of its units that run blocks of kernels, as multiprocessors."""
        self.memory: int | None = info["memory"]
        """Bytes of its memory, if it is known."""

    def __repr__(self) -> str:
        return f"<reef.Device {self.name}: {self.units} units>"

    def __enter__(self) -> Device:
        return self

    def load(
        self,
        what: str | os.PathLike[str] | bytes,
        *,
        batch: int | None = None,
        input_size: int | None = None,
        shape: Mapping[str, Sequence[int]] | None = None,
        weights: str | os.PathLike[str] | None = None,
        seed: int = 0,
        scales: str | os.PathLike[str] | None = None,
        loop_bound: int | None = None,
        instances: int = 8,
    ) -> Network:
        """Loads a network: an .onnx file, the bytes of one, a folder of `reef model import`, or a name
        such as "resnet18".

        `batch` and `input_size` set free sizes. `shape` sets those of an ONNX file by name: all sizes of
        an input, as `{"ids": [2, 128]}`, or one size that has a name, as `{"tokens": [128]}`. Those that
        stay open are -1 in `Network.inputs`: requests choose them. A network that is built by name has
        weights of the file `weights`, or made-up ones of `seed`, which has no effect where a file has them. At
        most `instances` requests of it can be on their way, for each set of sizes that requests chose. `scales`, a
        file of `reef model calibrate`, gives it numbers of 8 bits between its steps, on a device that has kernels
        for these. `loop_bound`: iterations after which loops of an ONNX file that data end have ended. If it is
        None, this is the most that the loop can have, if that is known and at most 16,384, or else 64. A request
        that needs more raises InvalidError.

        Raises NotFoundError for an unknown name, FileError for a file that can't be read or is not what
        it should be, and InvalidError for a size or a batch that the network can't have. Raises
        UnsupportedError for an ONNX file with something that REEF doesn't read, and for what the device
        has no kernels for, such as `scales`. Raises OutOfMemoryError.
        """
        source = source_of(what, batch, input_size, shape, weights, seed, scales, loop_bound)
        return Network(self._device.load(source, whole("instances", instances, 1)))

    def real_time(
        self, priority: int = 0, *, rate: tuple[float, float] | None = None
    ) -> RealTime:
        """Opens a real-time client. A higher priority goes first under the scheduler `priority`.

        `rate`: a period and a budget in seconds, the device time in each period that is its own. It
        needs a device that was opened with a `reserve`. Raises BusyError if less is left.
        """
        return RealTime(self._device.real_time(priority_of(priority), rate), self)

    def best_effort(
        self,
        weight: int = 1,
        priority: int = 0,
        *,
        capacity: int | None = None,
        window: int | None = None,
    ) -> BestEffort:
        """Opens a best-effort client, which is a queue. `weight`: its share of the device's time next to
        others, under the scheduler `fair-share` alone. A higher `priority` goes first under the scheduler
        `priority`. `capacity`: commands that can wait, a power of two up to 65536 (1024); a network has
        one or several for each layer. `window`: commands with the device at once (4); few are quick to
        preempt.
        """
        client = self._device.best_effort(
            weight_of(weight),
            priority_of(priority),
            None if capacity is None else whole("capacity", capacity),
            None if window is None else whole("window", window),
        )
        return BestEffort(client, self)

    def trace(self, seconds: float) -> bytes:
        """Records what runs when for that long, and returns a file for Perfetto: blocks on each unit
        where the device notes them, preemptions, and requests whose end was seen.

        Raises BusyError if another trace is being recorded.
        """
        if not 0.0 <= seconds <= 60.0:
            raise _reef.InvalidError(f"seconds must be from 0 to 60, got {seconds}")
        self._device.begin_trace()
        try:
            time.sleep(seconds)
        finally:
            data = self._device.end_trace()
        return data

    @contextmanager
    def recording(self, file: str | os.PathLike[str]) -> Iterator[None]:
        """Records what runs inside of the `with`, and writes a file for Perfetto; see `trace`. It has the first
        100,000 requests and says how many more there were, the first 65,536 preemptions, and no more than
        262,144 blocks of each unit."""
        self._device.begin_trace()
        try:
            yield
        finally:
            data = self._device.end_trace()
            with io.open(file, "wb") as to:
                to.write(data)

    def stats(self) -> Stats:
        """Returns the counters."""
        return Stats(**self._device.stats())

    def close(self) -> None:
        """Ends the device's work. Requests that the device has not got are cancelled."""
        self._device.close()
