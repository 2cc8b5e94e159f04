"""Several devices as one: clients are placed, and move when their device is lost."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from . import _reef
from ._closing import Closing
from ._network import Port, arrays_of, ports_of, priority_of, source_of, weight_of, whole
from ._request import Timing


class Node(NamedTuple):
    """A device of a cluster. `promised`: bytes of its memory that clients and networks have been
    promised; `lost`: the reason for which it is lost."""

    name: str
    clients: int
    promised: int
    lost: str | None


class ClusterNetwork:
    """A network that a cluster loads onto each device where a client of it is placed."""

    def __init__(self, network: _reef.ClusterNetwork) -> None:
        self._network = network
        self.name: str = network.name
        self.inputs: tuple[Port, ...] = ports_of(network.inputs())
        self.outputs: tuple[Port, ...] = ports_of(network.outputs())

    def __repr__(self) -> str:
        return f"<reef.ClusterNetwork {self.name}: {self.inputs} -> {self.outputs}>"


class Placed(Closing):
    """A client of a cluster, with memory for one inference of its network. It is on one device, and
    moves to another one if that is lost."""

    def __init__(self, network: ClusterNetwork, placed: _reef.Placed) -> None:
        self._network = network
        self._placed = placed
        self._of_thread = threading.local()

    def __repr__(self) -> str:
        return f"<reef.Placed of {self._network.name}>"

    def __enter__(self) -> Placed:
        return self

    def run(self, *inputs: Any, **named: Any) -> Any:
        """Runs one inference and waits for its output: a NumPy array, or a tuple of them. If the device
        is lost meanwhile, it runs once more on another one. Threads take turns.

        Inputs are those of `RealTime.run`, on the host. Raises InvalidError for a wrong input,
        DeviceLostError if the client may not move or no device is left.
        """
        arrays = arrays_of(self._network.name, self._network.inputs, inputs, named)
        outputs, times = self._placed.run(arrays)
        self._of_thread.timing = Timing(*times)
        return outputs[0] if len(outputs) == 1 else outputs

    @property
    def timing(self) -> Timing | None:
        """Times of this thread's newest inference."""
        return getattr(self._of_thread, "timing", None)

    @property
    def node(self) -> int:
        """Number of the device that it is on, in `Cluster.nodes()`."""
        return self._placed.node()

    @property
    def moves(self) -> int:
        """Number of its moves."""
        return self._placed.moves()

    def close(self) -> None:
        """Ends the client, after an inference that runs."""
        self._placed.close()


class Cluster:
    """Several devices of one backend, each with work of its own in the order of its scheduler."""

    def __init__(self, cluster: _reef.Cluster) -> None:
        self._cluster = cluster

    def __repr__(self) -> str:
        return f"<reef.Cluster {[node.name for node in self.nodes()]}>"

    def nodes(self) -> list[Node]:
        """Returns the state of each device, in the order in which they were given."""
        return [Node(*facts) for facts in self._cluster.nodes()]

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
    ) -> ClusterNetwork:
        """Reads a network; see `Device.load`. A size that stays open is 1, or another usual one."""
        source = source_of(what, batch, input_size, shape, weights, seed, scales, loop_bound)
        return ClusterNetwork(self._cluster.load(source))

    def real_time(
        self,
        network: ClusterNetwork,
        *,
        load: float = 1.0,
        memory: int = 0,
        moves: bool = True,
        priority: int = 0,
    ) -> Placed:
        """Places a real-time client: where the least real-time load is, then the least load.

        `load`: the part of a device that it keeps busy, from 0 to 1; `memory`: bytes that it takes
        there, 0 for those of its network; `moves`: whether it may be made anew elsewhere.

        Raises Error if no device takes it, with each one's reason.
        """
        args = (load, whole("memory", memory), moves, 1, priority_of(priority))
        return Placed(network, self._cluster.place(network._network, True, *args))

    def best_effort(
        self,
        network: ClusterNetwork,
        *,
        load: float = 1.0,
        memory: int = 0,
        moves: bool = True,
        weight: int = 1,
        priority: int = 0,
    ) -> Placed:
        """Places a best-effort client: where the least load is. `weight` and `priority` are as for
        `Device.best_effort`, and the others as for `real_time`."""
        args = (load, whole("memory", memory), moves, weight_of(weight), priority_of(priority))
        return Placed(network, self._cluster.place(network._network, False, *args))

    def limit_memory(self, node: int, bytes: int) -> None:
        """Promises at most `bytes` of a device's memory to clients and networks from now on."""
        self._cluster.limit_memory(whole("node", node), whole("bytes", bytes))

    def mark_lost(self, node: int, why: str = "marked lost") -> None:
        """Takes a device out: what waits there ends, and its clients move at their next request."""
        self._cluster.mark_lost(whole("node", node), why)


def open_cluster(devices: str | Sequence[str], scheduler: str = "reef") -> Cluster:
    """Opens several devices of one backend: ["cuda:0", "cuda:1"], "cuda:*", "cpu:0?units=1,cpu:1?units=1".

    Raises NotFoundError if there is no such device or scheduler, InvalidError for devices of two
    backends or one GPU twice.
    """
    names = devices if isinstance(devices, str) else ",".join(devices)
    if not names:
        raise _reef.InvalidError("devices must name at least one device")
    return Cluster(_reef.open_cluster(names, scheduler))
