"""Versions of protocols: first messages of releases, as they were recorded, against the daemon and the clients of today.

`RECORDED` has the bytes of 0.1.0. A release that changes a protocol adds its own, and gives that protocol another number: then what
is recorded here has to get an answer that says so.
"""

import array
import os
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

import reef

COMMAND = shutil.which("reef")
LIBRARY = COMMAND and Path(COMMAND).parents[1] / "lib/reef/libreef_cuda_shim.so"
DRIVER = os.environ.get("REEF_TEST_FAKE_DRIVER")
# The command of another release: its clients against this daemon, and this one's against its daemon.
OTHER = os.environ.get("REEF_TEST_OTHER")


def padded(size, *parts):
    found = b"".join(parts)
    return found + bytes(size - len(found))


RECORDED = {
    # A best-effort program joins: magic, version, kind, class, part, phases, a device.
    "guests": padded(256, b"REEFGUES", struct.pack("<6I", 3, 1, 2, 0, 0, 0), b"sixteen bytes id"),
    # The versions before, which no release had.
    "guests 2": padded(256, b"REEFGUES", struct.pack("<6I", 2, 1, 2, 0, 0, 0), b"sixteen bytes id"),
    "guests 1": padded(128, b"REEFGUES", struct.pack("<6I", 1, 1, 2, 0, 0, 0), b"sixteen bytes id"),
    # A real-time client of the model resnet18: magic with the version, class, length of the name.
    "local": padded(96, b"reeflcl3", bytes([1, 8]), bytes(6), b"resnet18"),
    "local 2": padded(96, b"reeflcl2", bytes([1, 8]), bytes(6), b"resnet18"),
    # Daemons' answers: a guest's refusal, a local client's.
    "refused": padded(256, b"REEFGUES", struct.pack("<6I", 3, 3, 0, 0, 0, 0), b"not today"),
    "refused 2": padded(256, b"REEFGUES", struct.pack("<6I", 2, 3, 0, 0, 0, 0), b"not today"),
    "local refused": padded(256, b"reeflcl3", struct.pack("<HH", 6, 9), bytes(4), b"not today"),
    "local refused 2": padded(256, b"reeflcl2", struct.pack("<HH", 6, 9), bytes(4), b"not today"),
}


def serve(test, command=COMMAND):
    """Folder of the sockets of a daemon with the model resnet18."""
    folder = Path(tempfile.mkdtemp(prefix="reef-versions-"))
    test.addCleanup(shutil.rmtree, folder)
    settings = ["models.builtin=true", "rights.owner={ rt = true, control = true }"]
    flags = [flag for setting in settings for flag in ("--set", setting)]
    with open(folder / "log", "wb") as log:
        daemon = subprocess.Popen(
            [command, "serve", "--device", "cpu:0?units=1", "--guests", "--load", "resnet18"]
            + ["--socket-dir", str(folder / "sockets"), *flags],
            stdout=log,
            stderr=log,
        )
    test.addCleanup(daemon.wait)
    test.addCleanup(daemon.kill)
    end = time.monotonic() + 60
    while not all((folder / "sockets" / name).exists() for name in ("guests.sock", "local.sock", "http.sock")):
        assert daemon.poll() is None and time.monotonic() < end, (folder / "log").read_text()
        time.sleep(0.01)  # sleep: poll of a condition
    return folder / "sockets"


def asked(path, kind, message, answer=256):
    """Answer to a message on a socket, its bytes and the number of files; `b""` where it is closed."""
    with socket.socket(socket.AF_UNIX, kind) as connection:
        connection.settimeout(30)
        connection.connect(str(path))
        connection.sendall(message)
        try:
            found, extra, *_ = connection.recvmsg(answer, 1024)
        except ConnectionResetError:
            return b"", 0
        files = array.array("i")
        for _, _, data in extra:
            files.frombytes(data)
        for file in files:
            os.close(file)
        return found, len(files)


class Recorded(threading.Thread):
    """A daemon that gives each client of a socket the same recorded answer."""

    def __init__(self, path, kind, answer):
        super().__init__(daemon=True)
        self.answer = answer
        self.socket = socket.socket(socket.AF_UNIX, kind)
        self.socket.bind(str(path))
        self.socket.listen()
        self.start()

    def run(self):
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            with connection:
                connection.recv(4096)
                connection.sendall(self.answer)
                connection.recv(4096)  # until the client has gone

    def end(self):
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()
        self.join()


@unittest.skipIf(COMMAND is None, "no command reef in PATH")
class Daemon(unittest.TestCase):
    def test_recorded_clients_are_served_or_told_the_version(self):
        folder = serve(self)
        guests, local = folder / "guests.sock", folder / "local.sock"
        found, files = asked(guests, socket.SOCK_SEQPACKET, RECORDED["guests"])
        self.assertEqual((found[:16], files), (b"REEFGUES" + struct.pack("<2I", 3, 2), 1))
        found, files = asked(local, socket.SOCK_STREAM, RECORDED["local"])
        self.assertEqual((found[:10], files), (b"reeflcl3\0\0", 1))
        for old in ("guests 2", "guests 1"):
            # An old program reads the number of the version from any answer, and refuses it by that.
            found, files = asked(guests, socket.SOCK_SEQPACKET, RECORDED[old])
            self.assertEqual(files, 0)
            self.assertEqual(found[:16], b"REEFGUES" + struct.pack("<2I", 3, 3), old)
            self.assertIn(f"version {old[-1]} of guests' messages, this 3", found[32:].decode())
        found, files = asked(local, socket.SOCK_STREAM, RECORDED["local 2"])
        self.assertEqual((found[:8], files), (b"reeflcl3", 0))
        self.assertIn(b"local protocol", found)


@unittest.skipIf(COMMAND is None, "no command reef in PATH")
class Clients(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="reef-versions-"))
        self.addCleanup(shutil.rmtree, self.folder)

    def daemon(self, name, kind, answer):
        recorded = Recorded(self.folder / name, kind, RECORDED[answer])
        self.addCleanup(recorded.end)

    def execute(self, *options):
        environment = {**os.environ, "REEF_SHIM": str(LIBRARY), "REEF_CUDA": DRIVER or ""}
        command = [COMMAND, "exec", "--socket-dir", str(self.folder), *options, "--", "echo", "ran"]
        return subprocess.run(command, env=environment, capture_output=True, text=True)

    @unittest.skipIf(DRIVER is None, "no driver for tests")
    def test_program_is_refused_by_a_daemon_of_another_version(self):
        self.daemon("guests.sock", socket.SOCK_SEQPACKET, "refused 2")
        found = self.execute("--class", "be", "--strict")
        self.assertNotEqual(found.returncode, 0)
        self.assertIn("version 2 of guests' messages, this 3", found.stderr)
        self.assertEqual(found.stdout, "")
        found = self.execute("--class", "be", "--allow-unprotected")
        self.assertEqual((found.returncode, found.stdout), (0, "ran\n"), found.stderr)

    @unittest.skipIf(DRIVER is None, "no driver for tests")
    def test_recorded_refusal_is_read(self):
        self.daemon("guests.sock", socket.SOCK_SEQPACKET, "refused")
        found = self.execute("--class", "be", "--strict")
        self.assertNotEqual(found.returncode, 0)
        self.assertIn("not today", found.stderr)

    def test_local_client_is_refused_by_a_daemon_of_another_version(self):
        for answer, said in [("local refused", "not today"), ("local refused 2", "local protocol of this version")]:
            self.daemon("local.sock", socket.SOCK_STREAM, answer)
            command = [COMMAND, "request", "resnet18", "--socket-dir", str(self.folder)]
            found = subprocess.run(command, capture_output=True, text=True, timeout=60)
            self.assertNotEqual(found.returncode, 0)
            self.assertIn(said, found.stderr)
            (self.folder / "local.sock").unlink()


@unittest.skipIf(OTHER is None, "REEF_TEST_OTHER does not name another release's command")
class OtherRelease(unittest.TestCase):
    def test_each_client_works_with_each_daemon_or_says_the_version(self):
        for daemon, client in [(COMMAND, OTHER), (OTHER, COMMAND)]:
            folder = serve(self, daemon)
            for name in ("rt", "be"):
                command = [client, "request", "resnet18", "--class", name, "--requests", "2"]
                found = subprocess.run(
                    [*command, "--socket-dir", str(folder)], capture_output=True, text=True
                )
                if found.returncode != 0:
                    self.assertIn("protocol of this version", found.stderr, f"{client} to {daemon}")
            if client == COMMAND:
                with reef.connect(folder) as connection:
                    self.assertIn("resnet18", connection.models())
            print(f"{client} works with {daemon}", file=sys.stderr)


if __name__ == "__main__":
    unittest.main()
