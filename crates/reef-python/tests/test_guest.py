"""Phases of programs under the library for unmodified ones, on a driver for tests."""

import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

import reef

COMMAND = shutil.which("reef")
LIBRARY = COMMAND and Path(COMMAND).parents[1] / "lib/reef/libreef_cuda_shim.so"
DRIVER = os.environ.get("REEF_TEST_FAKE_DRIVER")

# Does what it reads, an expression in each line, and says what came of it.
PROGRAM = """
import ctypes, os, sys
import reef

driver = ctypes.CDLL("libcuda.so.1")
word = ctypes.c_size_t
stream, memory, kernel = word(), word(), word()
assert driver.cuInit(0) == 0 and driver.cuCtxSetCurrent(word(1)) == 0
assert driver.cuStreamCreate(ctypes.byref(stream), 1) == 0
assert driver.cuMemAlloc_v2(ctypes.byref(memory), word(64)) == 0
assert driver.cuModuleGetFunction(ctypes.byref(kernel), None, b"mix") == 0

def launch():
    to, value = ctypes.c_uint64(memory.value), ctypes.c_uint64(1)
    params = (ctypes.c_void_p * 2)(ctypes.addressof(to), ctypes.addressof(value))
    sizes = [ctypes.c_uint(1)] * 6 + [ctypes.c_uint(0)]
    code = driver.cuLaunchKernel(kernel, *sizes, stream, params, None)
    return code or driver.cuStreamSynchronize(stream)

def joined():
    launch()
    return reef.guest.status().class_name

def begin():
    global phase
    phase = reef.guest.real_time()
    phase.__enter__()

def end():
    phase.__exit__(None, None, None)

def raising():
    try:
        with reef.guest.real_time():
            assert reef.guest.status().phases == 1
            raise KeyError("the body's own")
    except KeyError as error:
        return reef.guest.status().phases

def nested():
    with reef.guest.real_time(), reef.guest.real_time():
        two = reef.guest.status().phases
    return two, reef.guest.status().phases

def forked():
    with reef.guest.real_time():
        if os.fork() == 0:
            with reef.guest.real_time():  # which does nothing
                os._exit(reef.guest.status().phases)
        return os.waitstatus_to_exitcode(os.wait()[1]), reef.guest.status().phases

for line in sys.stdin:
    try:
        print(repr(eval(line)), flush=True)
    except Exception as error:
        print(f"{type(error).__name__}, {isinstance(error, PermissionError)}: {error}", flush=True)
"""


class Absent(unittest.TestCase):
    def test_without_the_library_nothing_happens(self):
        self.assertEqual(reef.guest.status(), (False, None, False, 0))
        with reef.guest.real_time():
            reef.guest.yield_now()
        with self.assertRaises(KeyError), reef.guest.real_time():
            raise KeyError

    def test_header_compiles_and_does_nothing_without_the_library(self):
        compiler = shutil.which("cc")
        if compiler is None:
            self.skipTest("no C compiler")
        code = """
#include "reef_guest.h"
int main(void)
{
    reef_guest_yield_now();
    if (reef_guest_class_number() || reef_guest_held() || reef_guest_phase_count()) return 2;
    if (reef_guest_reason()[0] != 0 || reef_guest_end() != 0) return 3;
    return reef_guest_begin() == ENODEV ? 0 : 1;
}
"""
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "program.c").write_text(code)
            headers = Path(__file__).parents[3] / "interpose/reef-shim/include"
            flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", f"-I{headers}"]
            program = f"{folder}/program"
            build = [compiler, *flags, "-o", program, f"{program}.c", "-ldl"]
            subprocess.run(build, check=True)
            self.assertEqual(subprocess.run([program]).returncode, 0)


class Program:
    def __init__(self, socket):
        self.child = subprocess.Popen(
            [sys.executable, "-c", PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={
                **os.environ,
                "LD_PRELOAD": str(LIBRARY),
                "REEF_CUDA": DRIVER,
                "REEF_GUESTS": str(socket),
                "REEF_CLASS": "be",
            },
        )

    def says(self, line):
        self.child.stdin.write(line + "\n")
        self.child.stdin.flush()
        return self.child.stdout.readline().strip()

    def until(self, line, wanted):
        end = time.monotonic() + 60
        while (found := self.says(line)) != wanted:
            assert time.monotonic() < end, f"{line}: {found}"
            time.sleep(0.001)  # sleep: poll of a condition

    def end(self):
        self.child.kill()
        self.child.wait()
        self.child.stdin.close()
        self.child.stdout.close()


HELD = "reef.guest.status().is_held"


@unittest.skipIf(COMMAND is None or not LIBRARY.exists() or DRIVER is None, "no driver for tests")
class Phases(unittest.TestCase):
    def start(self, right):
        folder = Path(tempfile.mkdtemp(prefix="reef-phases-"))
        self.addCleanup(shutil.rmtree, folder)
        settings = [f"rights.owner={right}", "guests.hold_ms=60000"]
        flags = [flag for setting in settings for flag in ("--set", setting)]
        command = [COMMAND, "serve", "--device", "cpu:0?units=1", "--guests", "--socket-dir"]
        with open(folder / "log", "wb") as log:
            daemon = subprocess.Popen(
                [*command, str(folder / "sockets"), *flags], stdout=log, stderr=log
            )
        self.addCleanup(daemon.wait)
        self.addCleanup(daemon.kill)
        socket = folder / "sockets/guests.sock"
        end = time.monotonic() + 60
        while not socket.exists():
            self.assertLess(time.monotonic(), end, (folder / "log").read_text())
            time.sleep(0.01)  # sleep: poll of a condition
        programs = [Program(socket), Program(socket)]
        for program in programs:
            self.addCleanup(program.end)
            program.until("joined()", "'be'")
        return programs

    def test_phase_holds_the_other_program_until_its_end(self):
        program, other = self.start("{ phases = true }")
        for end in ("end()", "reef.guest.yield_now()"):
            self.assertEqual(program.says("begin()"), "None")
            other.until(HELD, "True")
            self.assertEqual(program.says("launch(), reef.guest.status()"),
                             "(0, Status(has_library=True, class_name='be', is_held=False, phases=1))")
            self.assertEqual(program.says(end), "None")
            other.until(HELD, "False")
        self.assertEqual(program.says("launch()"), "0")
        other.until(HELD, "True")
        program.says("end()")
        other.until(HELD, "False")
        self.assertEqual(program.says("nested()"), "(2, 0)")
        self.assertEqual(program.says("raising()"), "0")
        self.assertEqual(program.says("forked()"), "(0, 1)")
        other.until(HELD, "False")
        program.says("begin()")
        other.until(HELD, "True")
        program.child.kill()
        other.until(HELD, "False")

    def test_phase_without_the_right_is_a_permission_error(self):
        program, other = self.start("{ control = true }")
        found = program.says("begin()")
        self.assertTrue(found.startswith("DeniedError, True: a real-time phase requires rights."), found)
        self.assertIn("phases", found)
        self.assertEqual(program.says("reef.guest.status().phases"), "0")
        self.assertEqual(other.says(HELD), "False")


if __name__ == "__main__":
    unittest.main()
