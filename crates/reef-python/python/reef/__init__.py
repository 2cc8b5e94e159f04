"""REEF: several programs share one accelerator, and real-time work starts within microseconds.

    import numpy as np
    import reef

    device = reef.open("cpu")
    net = device.load("resnet18", batch=1)
    x = np.zeros(net.inputs[0].shape, net.inputs[0].dtype)
    job = device.best_effort().submit(net, x)  # returns at once
    with device.real_time() as rt:
        y = rt.run(net, x)  # preempts the job, which loses nothing
    z = job.result()

Errors are `reef.Error` and its subclasses. Objects may be used by any thread. A call that waits lets
other threads of Python run, and ends with KeyboardInterrupt where that is raised.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import guest, serve, torch
    from ._cluster import Cluster, ClusterNetwork, Node, Placed, open_cluster
    from ._daemon import Daemon, Model, ServedClient, connect
    from ._device import BestEffort, Device, RealTime, Stats, Usage, devices, open, schedulers
    from ._errors import DeadlineError, DeniedError, UnavailableError
    from ._network import Network, Port, Slot
    from ._reef import (
        Array,
        BusyError,
        CancelledError,
        DeviceLostError,
        DriverError,
        Error,
        FileError,
        HostError,
        InvalidError,
        NotFoundError,
        OutOfMemoryError,
        UnsupportedError,
        __version__,
    )
    from ._request import Future, Timing
    from ._state import State

__all__ = [
    "Array",
    "BestEffort",
    "BusyError",
    "CancelledError",
    "Cluster",
    "ClusterNetwork",
    "Daemon",
    "DeadlineError",
    "DeniedError",
    "Device",
    "DeviceLostError",
    "DriverError",
    "Error",
    "FileError",
    "Future",
    "HostError",
    "InvalidError",
    "Model",
    "Network",
    "Node",
    "NotFoundError",
    "OutOfMemoryError",
    "Placed",
    "Port",
    "RealTime",
    "ServedClient",
    "Slot",
    "State",
    "Stats",
    "Timing",
    "UnavailableError",
    "UnsupportedError",
    "Usage",
    "__version__",
    "connect",
    "devices",
    "guest",
    "open",
    "open_cluster",
    "schedulers",
    "serve",
    "torch",
]


# Imported at their first use: `import reef` is quick, and `reef.serve` does without the compiled part.
_PARTS = {
    "_cluster": "Cluster ClusterNetwork Node Placed open_cluster",
    "_daemon": "Daemon Model ServedClient connect",
    "_device": "BestEffort Device RealTime Stats Usage devices open schedulers",
    "_errors": "DeadlineError DeniedError UnavailableError",
    "_network": "Network Port Slot",
    "_reef": "Array BusyError CancelledError DeviceLostError DriverError Error FileError HostError InvalidError NotFoundError OutOfMemoryError UnsupportedError __version__",
    "_request": "Future Timing",
    "_state": "State",
}
_PART_OF = {name: part for part, names in _PARTS.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    import importlib

    if name in ("guest", "serve", "torch"):
        return importlib.import_module(f"{__name__}.{name}")
    if name in _PART_OF:
        value = getattr(importlib.import_module(f"{__name__}.{_PART_OF[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
