"""torchrun and accelerate: the ranks of a job on two devices, held together by real-time work on one of them."""

import importlib.util
import os
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

import program

HERE = Path(__file__).parent
STEPS = 3000
# What a program without a job and one with real-time work do.
ALONE = "import program, sys; d = program.Driver(1); d.launch(); program.report(sys.argv[1])\nwhile True: d.launch_for(1)"
# Kernels that are enqueued at once leave the device no pause, however busy the host is.
BUSY = "import program, sys; d = program.Driver(0); sys.stdin.readline(); [d.enqueue() for _ in range(8)]; d.synchronize()"
KERNEL = 0.4  # seconds
# PyTorch 1 on Python 3.11 can't read the default of an option of its launcher.
OLD = """
import runpy, sys
from torch.distributed.elastic.multiprocessing.api import Std
Std.from_str = classmethod(lambda of, text: Std.NONE)
sys.argv = sys.argv[1:]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""


def module(name):
    """Command of a module that starts ranks."""
    import torch

    is_old = torch.__version__.startswith("1.") and sys.version_info >= (3, 11)
    return [sys.executable, *(["-c", OLD] if is_old else ["-m"]), name]


@unittest.skipIf(importlib.util.find_spec("torch") is None, "PyTorch is not installed")
class Ranks(unittest.TestCase):
    def setUp(self):
        self.daemon = program.Daemon()
        self.addCleanup(self.daemon.end)
        folder = tempfile.TemporaryDirectory(prefix="reef-ranks-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def start(self, options, *command, kernel=0):
        environment = {**os.environ, "REEF_FAKE_DEVICES": "2", "OMP_NUM_THREADS": "1"}
        environment["REEF_FAKE_KERNEL_NS"] = str(int(kernel * 1e9))
        environment["PYTHONPATH"] = f"{HERE}:{environment.get('PYTHONPATH', '')}"
        child = subprocess.Popen(
            ["reef", "exec", "--strict", "--socket-dir", str(self.daemon.folder / "reef"), *options, "--", *command],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.addCleanup(child.stdout.close)
        self.addCleanup(child.stdin.close)
        self.addCleanup(child.wait)
        self.addCleanup(child.terminate)
        return child

    def held(self, *names):
        return [(self.folder / f"held-{name}").read_text() for name in names]

    def step(self):
        return int((self.folder / "step-0").read_text().split()[0] or 0)

    def ranks_are_held_together(self, *launcher):
        busy = self.start(["--class", "rt"], sys.executable, "-c", BUSY, kernel=KERNEL)
        self.start(["--class", "be"], sys.executable, "-c", ALONE, str(self.folder / "held-alone"))
        job = self.start(
            ["--class", "be", "--job", "train"],
            *launcher,
            str(HERE / "train.py"),
            str(self.folder),
            str(STEPS),
        )
        def has_begun():
            self.assertIsNone(job.poll(), "the job has ended")
            return (self.folder / "step-0").exists() and self.step() > 10

        program.until(has_begun, 60)
        program.until(lambda: self.held("0", "1", "alone") == ["False"] * 3)
        busy.stdin.write("\n")
        busy.stdin.flush()
        # Real time is on device 0; rank 1 and the other program are on device 1.
        program.until(lambda: self.held("0", "1") == ["True"] * 2)
        begin, before = time.monotonic(), self.step()
        alone = set()
        while time.monotonic() < begin + 1:
            alone.add(self.held("alone")[0])
            time.sleep(0.01)
        self.assertEqual(alone, {"False"}, "without the job it is not held")
        self.assertIsNone(busy.poll(), "the real-time work has ended")
        # At most what was on its way when the hold began.
        self.assertLess(self.step() - before, 4, "steps of a job that is held")
        self.assertEqual(busy.wait(timeout=60), 0)
        (self.folder / "end").touch()
        said, _ = job.communicate(timeout=120)
        self.assertEqual(job.returncode, 0, said)
        total = sum(1 + 2 * step for step in range(STEPS))
        for rank in range(2):
            self.assertIn(f"rank {rank} of 2: {STEPS} steps, {total}", said)
        print(f"both ranks were held, and lost none of {STEPS} steps", file=sys.stderr)

    def test_ranks_of_torchrun_are_held_together(self):
        self.ranks_are_held_together(
            *[*module("torch.distributed.run"), "--nproc_per_node", "2"],
            *["--master_port", str(program.port())],
        )

    @unittest.skipIf(importlib.util.find_spec("accelerate") is None, "accelerate is not installed")
    def test_ranks_of_accelerate_are_held_together(self):
        self.ranks_are_held_together(
            *[*module("accelerate.commands.launch"), "--multi_gpu", "--num_processes", "2"],
            *["--num_machines", "1", "--mixed_precision", "no", "--dynamo_backend", "no"],
            *["--main_process_port", str(program.port())],
        )


if __name__ == "__main__":
    unittest.main()
