"""The source distribution has what the command is built from, and the wheel what was built."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest
import zipfile
from pathlib import Path

PACKAGE = Path(__file__).parents[1]

# Answers `cargo build` with files that have their names in them, and notes it; all else is cargo's.
CARGO = """#!/bin/sh
[ "$1" = build ] || exec {cargo} "$@"
echo "$@" >>"$CARGO_TARGET_DIR/asked"
mkdir -p "$CARGO_TARGET_DIR/release"
for name in reef lib_reef.so libreef_cuda_shim.so libreef_nvml_shim.so; do
    echo "$name" >"$CARGO_TARGET_DIR/release/$name"
    chmod 755 "$CARGO_TARGET_DIR/release/$name"
done
"""


def built(function, folder, **environment):
    """Calls the build backend in the package's folder; returns the name of what it has made."""
    code = f"import sys, reef_build; print(reef_build.{function}(sys.argv[1]))"
    made = subprocess.run(
        [sys.executable, "-c", code, folder],
        cwd=PACKAGE,
        env={**os.environ, "PYTHONPATH": str(PACKAGE / "build_backend"), **environment},
        capture_output=True,
        text=True,
    )
    if made.returncode != 0:
        raise AssertionError(made.stderr)
    return made.stdout.split()[-1]


@unittest.skipIf(importlib.util.find_spec("maturin") is None, "maturin is not installed")
@unittest.skipIf(shutil.which("cargo") is None, "no cargo")
class Sources(unittest.TestCase):
    def test_sources_are_a_workspace_with_the_command(self):
        with tempfile.TemporaryDirectory() as folder:
            name = built("build_sdist", folder)
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

    @unittest.skipIf(importlib.util.find_spec("wheel") is None, "wheel is not installed")
    def test_wheel_has_the_module_the_command_and_its_libraries(self):
        with tempfile.TemporaryDirectory() as folder:
            target, tools = Path(folder, "target"), Path(folder, "tools")
            target.mkdir()
            tools.mkdir()
            (tools / "cargo").write_text(CARGO.format(cargo=shutil.which("cargo")))
            (tools / "cargo").chmod(0o755)
            path = f"{tools}{os.pathsep}{os.environ['PATH']}"
            name = built("build_wheel", folder, CARGO_TARGET_DIR=str(target), PATH=path, REEF_BUILD_PROFILE="release")
            self.assertRegex(name, r"^reef_rt-[0-9.]+-cp310-abi3-linux_\w+\.whl$")
            data = "-".join(name.split("-")[:2]) + ".data"
            with zipfile.ZipFile(Path(folder, name)) as wheel:
                self.assertIsNone(wheel.testzip())
                for place, what in [
                    ("reef/_reef.abi3.so", "lib_reef.so"),
                    (f"{data}/scripts/reef", "reef"),
                    (f"{data}/data/lib/reef/libreef_cuda_shim.so", "libreef_cuda_shim.so"),
                    (f"{data}/data/lib/reef/libreef_nvml_shim.so", "libreef_nvml_shim.so"),
                ]:
                    self.assertEqual(wheel.read(place).decode().strip(), what)
                    self.assertEqual(wheel.getinfo(place).external_attr >> 16 & 0o777, 0o755, place)
                names = set(wheel.namelist())
            sources = {f"reef/{file.name}" for file in (PACKAGE / "python/reef").iterdir() if file.suffix in (".py", ".pyi", ".typed")}
            self.assertLessEqual(sources | {"reef/py.typed"}, names)
            # What the parts share is compiled once.
            (asked,) = (target / "asked").read_text().splitlines()
            for package in ["reef-cli", "reef-shim", "reef-nvml-shim", "reef-python"]:
                self.assertIn(f"-p {package} ", asked)


if __name__ == "__main__":
    unittest.main()
