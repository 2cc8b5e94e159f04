"""Runs the examples of README.md and of docs/python.md, with a daemon in the default folder."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

PACKAGE = Path(__file__).parents[1]
COMMAND = shutil.which("reef")


def start_daemon(folder):
    """Starts a daemon with a model of small images, called as the docs call it."""
    import reef

    (folder / "models/resnet18/1").mkdir(parents=True)
    (folder / "models/resnet18/model.toml").write_text('network = "resnet18"\nsize = 32\nseed = 1\n')
    models = ["--repository", str(folder / "models"), "--load", "resnet18"]
    with open(folder / "log", "wb") as log:
        daemon = subprocess.Popen(
            [COMMAND, "serve", "--device", "cpu:0?units=1", *models],
            env={**os.environ, "XDG_RUNTIME_DIR": str(folder)},
            stdout=log,
            stderr=log,
        )
    end = time.monotonic() + 60
    while True:
        try:
            with reef.connect(folder / "reef") as connected:
                connected.model("resnet18")
            return daemon
        except reef.Error as error:
            if time.monotonic() > end or daemon.poll() is not None:
                raise AssertionError((folder / "log").read_text()) from error
            time.sleep(0.02)  # sleep: poll of a condition


class Examples(unittest.TestCase):
    def test_examples_run(self):
        runtime = Path(tempfile.mkdtemp(prefix="reef-docs-"))
        self.addCleanup(shutil.rmtree, runtime)
        if COMMAND is not None:
            daemon = start_daemon(runtime)
            self.addCleanup(daemon.wait)
            self.addCleanup(daemon.kill)
        found = 0
        for page in [PACKAGE / "README.md", PACKAGE.parents[1] / "docs/python.md"]:
            for code in re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL):
                found += 1
                with self.subTest(page.name), tempfile.TemporaryDirectory() as folder:
                    if "import torch" in code and importlib.util.find_spec("torch") is None:
                        self.skipTest("torch is not installed")
                    if "connect(" in code and COMMAND is None:
                        self.skipTest("no command reef in PATH")
                    run = subprocess.run(
                        [sys.executable, "-c", code],
                        cwd=folder,
                        env={**os.environ, "XDG_RUNTIME_DIR": str(runtime)},
                        capture_output=True,
                        text=True,
                        timeout=120,
                    )
                    self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual(found, 10)

    def test_notebook_runs(self):
        run = subprocess.run(
            [sys.executable, PACKAGE / "examples/tour.py"],
            capture_output=True,
            text=True,
            timeout=120,
        )
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertRegex(run.stdout, r"8 jobs, [1-9]\d* preemptions")


if __name__ == "__main__":
    unittest.main()
