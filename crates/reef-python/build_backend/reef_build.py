"""Build backend: the module, the command `reef` and its libraries in one wheel, with maturin's metadata.

All are built by one `cargo build`: what they share is compiled once, with the features that any of them wants.
A source distribution has the whole workspace, so that a wheel that is built from it has them too.
REEF_BUILD_PROFILE names another profile of Cargo than release, and CARGO_BUILD_TARGET another target than this machine.
"""

import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from maturin import (  # noqa: F401
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
    prepare_metadata_for_build_wheel,
)

PROFILE = os.environ.get("REEF_BUILD_PROFILE", "release")
TARGET = os.environ.get("CARGO_BUILD_TARGET", "")
PACKAGES = ["reef-cli", "reef-shim", "reef-nvml-shim", "reef-python"]
FEATURES = "reef-cli/cuda,reef-cli/hip,reef-cli/remote,reef-python/cuda,reef-python/hip"

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


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    package = Path.cwd()
    built = _build(_root(package))
    with tempfile.TemporaryDirectory() as folder:
        stage = Path(folder)
        info = prepare_metadata_for_build_wheel(folder, config_settings)
        name = info.removesuffix(".dist-info")
        _lay_out(stage, f"{name}.data", _root(package) / "crates/reef-python/python/reef", built)
        metadata = (stage / info / "WHEEL").read_text()
        subprocess.run([sys.executable, "-m", "wheel", "pack", folder, "--dest-dir", wheel_directory], check=True)
    (tag,) = [line.split()[1] for line in metadata.splitlines() if line.startswith("Tag:")]
    return f"{name}-{tag}.whl"


def _root(package: Path) -> Path:
    """The workspace: the package's own folder in a source distribution, that above it elsewhere."""
    return package if (package / "crates").is_dir() else package.parents[1]


def _build(root: Path) -> Path:
    """Compiles everything; returns the folder that has it."""
    packages = [word for name in PACKAGES for word in ("-p", name)]
    cargo = ["cargo", "build", "--locked", "--profile", PROFILE, "--lib", "--bins", *packages, "--features", FEATURES]
    # The module is for the stable interface of all Pythons, so none is looked at.
    subprocess.run(cargo, cwd=root, check=True, env={**os.environ, "PYO3_NO_PYTHON": "1"})
    target = root / os.environ.get("CARGO_TARGET_DIR", "target") / TARGET
    return target / ("debug" if PROFILE == "dev" else PROFILE)


def _lay_out(stage: Path, data: str, sources: Path, built: Path) -> None:
    """Copies the package and what was built to where a wheel has it."""
    shutil.copytree(sources, stage / "reef", ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    strip = TARGET.replace("-unknown", "") + "-strip" if TARGET else "strip"
    for name, place in [
        ("lib_reef.so", "reef/_reef.abi3.so"),
        ("reef", f"{data}/scripts/reef"),
        ("libreef_cuda_shim.so", f"{data}/data/lib/reef/libreef_cuda_shim.so"),
        ("libreef_nvml_shim.so", f"{data}/data/lib/reef/libreef_nvml_shim.so"),
    ]:
        (stage / place).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(built / name, stage / place)
        if shutil.which(strip):
            subprocess.run([strip, "--strip-unneeded", stage / place], check=False)
