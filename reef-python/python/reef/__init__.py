"""REEF: several programs share one accelerator, and real-time work starts within microseconds.

    import reef

    device = reef.open("cpu")
    net = device.load("resnet18", batch=1)
    with device.real_time() as rt:
        y = rt.run(net, x)
    job = device.best_effort(weight=2).submit(net, x)
    y = job.result()

Errors are `reef.Error` and its subclasses. Objects may be used by any thread. A call that waits lets
other threads of Python run, and ends with KeyboardInterrupt where that is raised.
"""

from ._device import BestEffort, Device, RealTime, Stats, devices, open, schedulers
from ._network import Network, Port
from ._reef import (
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
)
from ._request import Future, Timing

__all__ = [
    "BestEffort",
    "BusyError",
    "CancelledError",
    "Device",
    "DeviceLostError",
    "DriverError",
    "Error",
    "FileError",
    "Future",
    "HostError",
    "InvalidError",
    "Network",
    "NotFoundError",
    "OutOfMemoryError",
    "Port",
    "RealTime",
    "Stats",
    "Timing",
    "UnsupportedError",
    "devices",
    "open",
    "schedulers",
]
