"""Build backend: maturin's, with the command `reef` and its libraries in the wheel.

A source distribution has the whole workspace, so that a wheel that is built from it has them too.
REEF_BUILD_PROFILE names another profile of Cargo than release, and CARGO_BUILD_TARGET another target than this machine.
"""

import io
import os
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

import maturin
from maturin import get_requires_for_build_sdist, get_requires_for_build_wheel  # noqa: F401

PROFILE = os.environ.get("REEF_BUILD_PROFILE", "release")
TARGET = os.environ.get("CARGO_BUILD_TARGET", "")
FEATURES = "cuda,hip,remote"
LIBRARIES = ["reef-shim", "reef-nvml-shim"]


DATA = Path("build/data")

# Folders of the repository that nothing is built from.
LEFT_OUT = (".ci/", "deploy/", "docs/lab/", "docs/diagrams/", "docs/results/", "fuzz/")

# Differences of pyproject.toml at the root of a source distribution, where the package has a folder.
MOVED = {
    'backend-path = ["build_backend"]': 'backend-path = ["crates/reef-python/build_backend"]',
    'readme = "README.md"': 'readme = "crates/reef-python/README.md"',
    'python-source = "python"': 'python-source = "crates/reef-python/python"\n'
    'manifest-path = "crates/reef-python/Cargo.toml"',
}


def build_sdist(sdist_directory, config_settings=None):
    package = Path.cwd()
    root = _root(package)
    if root == package:
        raise RuntimeError("a source distribution is made in a checkout")
    with tempfile.TemporaryDirectory() as folder:
        info = Path(folder) / prepare_metadata_for_build_wheel(folder, config_settings)
        metadata = (info / "METADATA").read_bytes()
    name = info.name.removesuffix(".dist-info")
    pyproject = (package / "pyproject.toml").read_text()
    for here, moved in MOVED.items():
        assert here in pyproject, here
        pyproject = pyproject.replace(here, moved)
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=root, check=True, capture_output=True)
    paths = [path for path in listed.stdout.decode().split("\0") if path]
    with tarfile.open(Path(sdist_directory) / f"{name}.tar.gz", "w:gz") as archive:
        for text, data in [("PKG-INFO", metadata), ("pyproject.toml", pyproject.encode())]:
            entry = tarfile.TarInfo(f"{name}/{text}")
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
        for path in paths:
            if not path.startswith(LEFT_OUT) and (root / path).exists():
                archive.add(root / path, f"{name}/{path}", recursive=False)
    return f"{name}.tar.gz"


def prepare_metadata_for_build_wheel(*args, **named):
    DATA.mkdir(parents=True, exist_ok=True)  # maturin wants it
    return maturin.prepare_metadata_for_build_wheel(*args, **named)


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    _stage(Path.cwd())
    settings = dict(config_settings or {})
    settings.setdefault("build-args", f"--profile {PROFILE}")
    return maturin.build_wheel(wheel_directory, settings, metadata_directory)


def _root(package: Path) -> Path:
    """The workspace: the package's own folder in a source distribution, that above it elsewhere."""
    return package if (package / "crates").is_dir() else package.parents[1]


def _stage(package: Path) -> None:
    """Builds the command and the libraries, and puts them where the wheel takes them from."""
    root = _root(package)
    cargo = ["cargo", "build", "--locked", "--profile", PROFILE]
    subprocess.run([*cargo, "-p", "reef-cli", "--features", FEATURES], cwd=root, check=True)
    libraries = [word for name in LIBRARIES for word in ("-p", name)]
    subprocess.run([*cargo, *libraries, "--lib"], cwd=root, check=True)
    target = Path(os.environ.get("CARGO_TARGET_DIR", root / "target")) / TARGET
    built = target / ("debug" if PROFILE == "dev" else PROFILE)
    strip = TARGET.replace("-unknown", "") + "-strip" if TARGET else "strip"
    data = package / DATA
    shutil.rmtree(data, ignore_errors=True)
    for name, folder in [
        ("reef", "scripts"),
        ("libreef_cuda_shim.so", "data/lib/reef"),
        ("libreef_nvml_shim.so", "data/lib/reef"),
    ]:
        (data / folder).mkdir(parents=True, exist_ok=True)
        shutil.copy2(built / name, data / folder / name)
        if shutil.which(strip):
            subprocess.run([strip, "--strip-unneeded", data / folder / name], check=False)
