"""What a network keeps from one request to the next."""

from __future__ import annotations

import copy
import os
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from . import _reef
from ._network import Network, Port, check_process, checked, in_order

if TYPE_CHECKING:
    from ._device import BestEffort, RealTime


class State:
    """Outputs of a network that are inputs of its next request. Made by `Network.state`.

    They stay on the device: a request copies its other inputs to it, and its other outputs from it.
    Each request goes on where the last one that succeeded left off, and one that fails changes
    nothing. Requests of several threads go one after the other.
    """

    def __init__(
        self, network: Network, pairs: Mapping[str, str], first: Mapping[str, Any] | None
    ) -> None:
        self.network: Network = network
        """Network whose outputs it keeps."""
        inputs, outputs = _named(network.inputs), _named(network.outputs)
        for name, output in pairs.items():
            _check(network, inputs.get(name), outputs.get(output), (name, output))
        if len(set(pairs.values())) < len(pairs):
            raise _reef.InvalidError(f"pairs must have each output once, got {dict(pairs)}")
        for name in first or {}:
            if name not in pairs:
                raise _reef.InvalidError(f"first: no pair has input {name!r} (have: {list(pairs)})")
        self._pairs = {name: list(outputs).index(output) for name, output in pairs.items()}
        self._first = {name: _start(inputs[name], (first or {}).get(name)) for name in pairs}
        self._values = dict(self._first)
        self._given = [port.name for port in network.inputs if port.name not in pairs]
        self._process = os.getpid()
        self._lock = threading.RLock()  # a signal's handler may ask for values inside of `run`
        self._runs = False

    def __repr__(self) -> str:
        return f"<reef.State of {self.network.name}: {list(self._pairs)}>"

    def run(
        self, client: RealTime | BestEffort, *inputs: Any, out: str | None = None, **named: Any
    ) -> Any:
        """Runs one inference and keeps its state. Inputs are those that are no state, in the
        network's order or by their names. Returns the outputs that are no state, as `RealTime.run`
        does: NumPy arrays, or `Array`s if `out` is "device".
        """
        check_process(self._process)
        if out not in (None, "host", "device"):
            raise _reef.InvalidError(f'out must be "host", "device" or None, got {out!r}')
        given = dict(zip(self._given, in_order(self.network.name, self._given, inputs, named)))
        state = set(self._pairs.values())
        with self._lock:
            self._check_rests()
            values = given | self._values
            # In order: a name may be that of one of the function's own arguments.
            ordered = [values[port.name] for port in self.network.inputs]
            try:
                self._runs = True
                made = client.run(self.network, *ordered, out="device")
            finally:
                self._runs = False
            made = made if isinstance(made, tuple) else (made,)
            others = [each for at, each in enumerate(made) if at not in state]
            if out != "device":
                others = [each.numpy() for each in others]
            self._values = {name: made[at] for name, at in self._pairs.items()}  # it succeeded
        return others[0] if len(others) == 1 else tuple(others)

    def values(self) -> dict[str, Any]:
        """What the inputs of the next request are, by their names."""
        check_process(self._process)
        with self._lock:
            return dict(self._values)

    def reset(self) -> None:
        """Begins again with the first values."""
        check_process(self._process)
        with self._lock:
            self._check_rests()
            self._values = dict(self._first)

    def _check_rests(self) -> None:
        """Refuses a signal's handler that interrupts a request of this thread."""
        if self._runs:
            raise _reef.BusyError("a request of the state has not ended")


def _named(ports: Sequence[Port]) -> dict[str, Port]:
    return {port.name: port for port in ports}


def _check(network: Network, to: Port | None, at: Port | None, names: tuple[str, str]) -> None:
    """Refuses a pair of ports that aren't there, or that differ."""
    for port, name, kind, have in (
        (to, names[0], "input", network.inputs),
        (at, names[1], "output", network.outputs),
    ):
        if port is None:
            listed = [port.name for port in have]
            raise _reef.InvalidError(f"{network.name}: no {kind} {name!r} (have: {listed})")
    assert to is not None and at is not None
    fits = len(to.shape) == len(at.shape) and all(
        -1 in sizes or sizes[0] == sizes[1] for sizes in zip(to.shape, at.shape)
    )
    if to.dtype != at.dtype or not fits:
        raise _reef.InvalidError(
            f"output {at.name} must fit input {to.name}, {to.dtype} {to.shape}, "
            f"got {at.dtype} {at.shape}"
        )


def _start(port: Port, first: Any) -> Any:
    """The first value of an input: zeros unless it is given."""
    import numpy

    if first is not None:
        return _copied(port, first)
    if -1 in port.shape:
        raise _reef.InvalidError(
            f"first must have input {port.name}, whose shape {port.shape} leaves sizes open"
        )
    return numpy.zeros(port.shape, port.dtype)


def _copied(port: Port, value: Any) -> Any:
    """A copy of an array, as its owner may write to it before the next request or `State.reset`."""
    import numpy

    if isinstance(value, _reef.Array):
        value = value.numpy()
    if isinstance(value, numpy.ndarray):
        return numpy.array(value, subok=True)  # with a mask, which a request refuses
    if hasattr(value, "__dlpack__"):  # of another library, maybe on a GPU: copied there
        return value.clone() if hasattr(value, "clone") else copy.deepcopy(value)
    return numpy.array(checked(port.name, port.shape, port.dtype, value))
