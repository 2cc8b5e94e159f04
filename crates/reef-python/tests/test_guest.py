"""Phases of programs under the library for unmodified ones, on a driver for tests."""

import contextlib
import http.client
import json
import os
import shutil
import socket
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

# A model whose requests launch a kernel, and wait for the file that they name.
MODEL = PROGRAM.partition("def begin")[0] + """
import time
import reef.serve

class Work(reef.serve.Model):
    inputs = {"go": str}
    outputs = {"code": int}

    def load(self, device):
        while joined() != "be":
            time.sleep(0.01)  # sleep: poll of a condition

    def infer(self, request):
        code = launch()
        open(request["go"] + ".begun", "w").close()
        while not os.path.exists(request["go"]):
            time.sleep(0.01)  # sleep: poll of a condition
        return {"code": code}

reef.serve.run(Work)
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
    def start(self, right, prepare=lambda folder: []):
        folder = Path(tempfile.mkdtemp(prefix="reef-phases-"))
        self.addCleanup(shutil.rmtree, folder)
        settings = [f"rights.owner={right}", "guests.hold_ms=60000", "times.request_ms=600000"]
        flags = [flag for setting in settings for flag in ("--set", setting)] + prepare(folder)
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

    def put_model(self, folder):
        """Puts the model into a repository. Returns the daemon's options for it."""
        self.folder, version = folder, folder / "models/work/1"
        version.mkdir(parents=True)
        variables = {"LD_PRELOAD": str(LIBRARY), "REEF_CUDA": DRIVER, "REEF_CLASS": "be"}
        variables["REEF_GUESTS"] = str(folder / "sockets/guests.sock")
        env = ", ".join(f"{name} = {json.dumps(value)}" for name, value in variables.items())
        command = json.dumps([sys.executable, "model.py"])
        text = f'engine = "process"\n[process]\ncommand = {command}\nenv = {{ {env} }}\n'
        (version / "model.py").write_text(MODEL)
        (version.parent / "model.toml").write_text(text)
        for path in [folder, *folder.rglob("*")]:
            path.chmod(0o755)  # a daemon starts no program that others may write
        return ["--repository", str(folder / "models"), "--load", "work", "--set", "models.processes=true"]

    def ask(self, go, class_name):
        """The answer to a request, once the file is there."""
        tensor = {"name": "go", "datatype": "BYTES", "shape": [1], "data": [str(go)]}
        headers = {"content-type": "application/json", "reef-class": class_name}
        with contextlib.closing(http.client.HTTPConnection("localhost", timeout=600)) as connection:
            connection.sock = socket.socket(socket.AF_UNIX)
            connection.sock.connect(str(self.folder / "sockets/http.sock"))
            connection.request("POST", "/v2/models/work/infer", json.dumps({"inputs": [tensor]}), headers)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())

    def until_there(self, path, said):
        end = time.monotonic() + 120
        while not path.exists():
            self.assertFalse(said, "it has ended before")
            self.assertLess(time.monotonic(), end, (self.folder / "log").read_text())
            time.sleep(0.01)  # sleep: poll of a condition

    def test_request_to_a_model_holds_others_if_it_is_real_time(self):
        _, other = self.start("{ rt = true }", self.put_model)
        self.until_there(self.folder / "sockets/http.sock", [])
        for number, class_name in enumerate(["rt", "be", "rt"]):
            go, said = self.folder / f"go{number}", []
            asks = threading.Thread(target=lambda: said.append(self.ask(go, class_name)), daemon=True)
            asks.start()
            self.until_there(self.folder / f"go{number}.begun", said)
            if class_name == "rt":
                other.until(HELD, "True")
            else:
                self.assertEqual(other.says(HELD), "False")
            go.touch()
            asks.join()
            status, answer = said[0]
            self.assertEqual((status, answer.get("outputs", [{}])[0].get("data")), (200, [0]), answer)
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
