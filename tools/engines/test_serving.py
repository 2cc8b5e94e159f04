"""Servers of language models under `reef exec`: one of the transformers library, and vLLM where it is installed."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import unittest
import urllib.request
from pathlib import Path

import program

HERE = Path(__file__).parent


class Serving(unittest.TestCase):
    def answer(self, *prefix):
        at = program.port()
        child = subprocess.Popen(
            [*prefix, sys.executable, str(HERE / "serve.py"), str(at)], stdout=subprocess.PIPE, text=True
        )
        try:
            self.assertEqual(child.stdout.readline().strip(), "ready")
            with urllib.request.urlopen(f"http://127.0.0.1:{at}/?tokens=1,2,3", timeout=60) as found:
                return json.load(found)
        finally:
            child.kill()
            child.wait()
            child.stdout.close()

    @unittest.skipIf(importlib.util.find_spec("transformers") is None, "transformers is not installed")
    def test_transformers_answer_the_same_in_both_classes(self):
        daemon = program.Daemon()
        self.addCleanup(daemon.end)
        alone = self.answer()
        self.assertEqual(len(alone["tokens"]), 19)
        for of in ("rt", "be"):
            call = ["reef", "exec", "--strict", "--class", of, "--socket-dir", str(daemon.folder / "reef"), "--"]
            self.assertEqual(self.answer(*call), alone)

    @unittest.skipIf(shutil.which("vllm") is None, "vLLM is not installed")
    def test_vllm_starts_in_real_time(self):
        daemon = program.Daemon()
        self.addCleanup(daemon.end)
        call = ["reef", "exec", "--strict", "--class", "rt", "--socket-dir", str(daemon.folder / "reef"), "--"]
        found = subprocess.run([*call, "vllm", "--version"], capture_output=True, text=True, env=os.environ)
        self.assertEqual(found.returncode, 0, found.stderr)


if __name__ == "__main__":
    unittest.main()
