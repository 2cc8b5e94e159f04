"""Parts of the engines' tests: daemons, and programs that use the CUDA driver, on a GPU or the driver for tests."""

import ctypes
import os
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from pathlib import Path

COMMAND = shutil.which("reef")
SETTINGS = ["rights.owner={ rt = true, control = true }", "guests.hold_ms=1000"]


def port():
    """A free one."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


class Daemon:
    """`reef serve --guests` on the CPU device, with a folder of its own: that of a node. It may have further flags."""

    def __init__(self, *more):
        self.folder = Path(tempfile.mkdtemp(prefix="reef-engine-"))
        flags = [flag for setting in SETTINGS for flag in ("--set", setting)]
        command = [COMMAND, "serve", "--device", "cpu:0?units=1", "--guests"]
        with open(self.folder / "log", "wb") as log:
            self.child = subprocess.Popen(
                [*command, "--socket-dir", str(self.folder / "reef"), *flags, *more],
                stdout=log,
                stderr=log,
            )
        end = time.monotonic() + 60
        while not (self.folder / "reef/http.sock").exists():
            assert self.child.poll() is None and time.monotonic() < end, self.log()
            time.sleep(0.01)

    def log(self):
        return (self.folder / "log").read_text()

    def guests(self):
        """What the metrics have of each program."""
        found = subprocess.run(
            ["curl", "-s", "--unix-socket", str(self.folder / "reef/http.sock"), "http://localhost/metrics"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        return [line for line in found.splitlines() if line.startswith("reef_guest")]

    def end(self):
        self.child.kill()
        self.child.wait()
        shutil.rmtree(self.folder)


class Driver:
    """A program's own use of the CUDA driver: a stream, memory, and a kernel of the driver for tests."""

    def __init__(self, device=0):
        self.driver = driver = ctypes.CDLL("libcuda.so.1")
        word = ctypes.c_size_t
        context, self.stream, self.memory, self.kernel = word(), word(), word(), word()
        assert driver.cuInit(0) == 0
        assert driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device) == 0
        assert driver.cuCtxSetCurrent(context) == 0
        assert driver.cuStreamCreate(ctypes.byref(self.stream), 1) == 0
        assert driver.cuMemAlloc_v2(ctypes.byref(self.memory), word(64)) == 0
        assert driver.cuModuleGetFunction(ctypes.byref(self.kernel), None, b"mix") == 0

    def enqueue(self):
        to, value = ctypes.c_uint64(self.memory.value), ctypes.c_uint64(1)
        params = (ctypes.c_void_p * 2)(ctypes.addressof(to), ctypes.addressof(value))
        sizes = [ctypes.c_uint(1)] * 6 + [ctypes.c_uint(0)]
        code = self.driver.cuLaunchKernel(self.kernel, *sizes, self.stream, params, None)
        assert code == 0, code

    def synchronize(self):
        code = self.driver.cuStreamSynchronize(self.stream)
        assert code == 0, code

    def launch(self):
        self.enqueue()
        self.synchronize()

    def launch_for(self, seconds):
        """Launches without a pause; the number of them."""
        end, count = time.monotonic() + seconds, 0
        while time.monotonic() < end:
            self.launch()
            count += 1
        return count


def status():
    """What the library says of this process: its class, and whether it is held."""
    import reef

    found = reef.guest.status()
    return {"pid": os.getpid(), "class": found.class_name, "held": found.is_held}


def report(path, seconds=0.01):
    """Writes whether this process is held to a file, again and again, from a thread."""

    def loop():
        while True:
            Path(f"{path}.new").write_text(str(status()["held"]))
            os.replace(f"{path}.new", path)
            time.sleep(seconds)

    threading.Thread(target=loop, daemon=True).start()


def until(condition, seconds=30):
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, "not in time"
        time.sleep(0.005)
    return found
