"""Runs the examples of README.md and of docs/python.md."""

import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

PACKAGE = Path(__file__).parents[1]


class Examples(unittest.TestCase):
    def test_examples_run(self):
        found = 0
        for page in [PACKAGE / "README.md", PACKAGE.parent / "docs/python.md"]:
            for code in re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL):
                found += 1
                with self.subTest(page.name), tempfile.TemporaryDirectory() as folder:
                    run = subprocess.run(
                        [sys.executable, "-c", code],
                        cwd=folder,
                        capture_output=True,
                        text=True,
                        timeout=120,
                    )
                    self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual(found, 3)


if __name__ == "__main__":
    unittest.main()
