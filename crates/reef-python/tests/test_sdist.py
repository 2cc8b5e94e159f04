"""The source distribution has what the command is built from."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest
from pathlib import Path

PACKAGE = Path(__file__).parents[1]


@unittest.skipIf(importlib.util.find_spec("maturin") is None, "maturin is not installed")
@unittest.skipIf(shutil.which("cargo") is None, "no cargo")
class Sources(unittest.TestCase):
    def test_sources_are_a_workspace_with_the_command(self):
        with tempfile.TemporaryDirectory() as folder:
            code = "import sys, reef_build; print(reef_build.build_sdist(sys.argv[1]))"
            made = subprocess.run(
                [sys.executable, "-c", code, folder],
                cwd=PACKAGE,
                env={**os.environ, "PYTHONPATH": str(PACKAGE / "build_backend")},
                capture_output=True,
                text=True,
            )
            self.assertEqual(made.returncode, 0, made.stderr)
            name = made.stdout.split()[-1]
            with tarfile.open(Path(folder) / name) as archive:
                archive.extractall(folder)
            root = Path(folder) / name.removesuffix(".tar.gz")
            self.assertIn("Name: reef-rt", (root / "PKG-INFO").read_text())
            pyproject = (root / "pyproject.toml").read_text()
            for place in ["build_backend", "README.md", "python", "Cargo.toml"]:
                self.assertIn(f'"crates/reef-python/{place}"', pyproject)
                self.assertTrue((root / "crates/reef-python" / place).exists(), place)
            # Cargo reads all members, and needs no other version of a dependency.
            read = ["cargo", "metadata", "--locked", "--offline", "--format-version", "1", "--no-deps"]
            found = subprocess.run(read, cwd=root, capture_output=True, text=True)
            self.assertEqual(found.returncode, 0, found.stderr)
            members = {package["name"] for package in json.loads(found.stdout)["packages"]}
            self.assertLessEqual({"reef-cli", "reef-shim", "reef-nvml-shim", "reef-python"}, members)


if __name__ == "__main__":
    unittest.main()
