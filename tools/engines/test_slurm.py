"""The prolog of Slurm's tasks, next to a command that says what `reef exec` would."""

import os
import subprocess
import tempfile
import unittest
from pathlib import Path

PROLOG = Path(__file__).parents[2] / "deploy/slurm/task-prolog.sh"
# As `reef exec -- env` prints them. It mounts the library over the driver's file, unless it is told not to. Then REEF_CUDA
# names a file that only programs with this mount see.
COMMAND = """#!/bin/sh
echo "$@" >"$ARGUMENTS"
echo PATH=/usr/bin
echo LD_PRELOAD=/usr/lib/reef/libreef_cuda_shim.so
echo LD_LIBRARY_PATH=/run/user/1000/reef/libraries-1
echo NUMBA_CUDA_DRIVER=/usr/lib/reef/libreef_cuda_shim.so
echo CUDA_MPS_CLIENT_PRIORITY=1
echo REEF_CLASS=be
case "$*" in *"--bind never"*) ;; *) echo REEF_CUDA=/run/user/1000/reef/libraries-1/kept/libcuda.so.1 ;; esac
"""


class Prolog(unittest.TestCase):
    def run_prolog(self, partition):
        """The variables of a task in this partition, and the arguments of the command."""
        with tempfile.TemporaryDirectory() as folder:
            command, arguments = Path(folder, "reef"), Path(folder, "arguments")
            command.write_text(COMMAND)
            command.chmod(0o755)
            own = {"PATH": f"{folder}:{os.environ['PATH']}", "ARGUMENTS": str(arguments)}
            job = {"SLURM_JOB_ID": "7", "SLURM_JOB_PARTITION": partition}
            done = subprocess.run(["sh", PROLOG], env={**own, **job}, capture_output=True, text=True, check=True)
            return done.stdout.splitlines(), arguments.read_text()

    def test_task_gets_the_variables_of_reef_exec(self):
        lines, arguments = self.run_prolog("batch")
        self.assertIn("--class be --job slurm-7", arguments)
        self.assertEqual(
            lines,
            [
                "export LD_PRELOAD=/usr/lib/reef/libreef_cuda_shim.so",
                "export LD_LIBRARY_PATH=/run/user/1000/reef/libraries-1",
                "export NUMBA_CUDA_DRIVER=/usr/lib/reef/libreef_cuda_shim.so",
                "export CUDA_MPS_CLIENT_PRIORITY=1",
                "export REEF_CLASS=be",
            ],
        )

    def test_real_time_partition_has_no_job(self):
        _, arguments = self.run_prolog("realtime")
        self.assertIn("--class rt", arguments)
        self.assertNotIn("--job", arguments)


if __name__ == "__main__":
    unittest.main()
