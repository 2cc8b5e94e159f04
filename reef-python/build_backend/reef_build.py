"""Build backend: maturin's, with the command `reef` and its libraries in the wheel.

REEF_BUILD_PROFILE names another profile of Cargo than release.
"""

import os
import shutil
import subprocess
from pathlib import Path

import maturin
from maturin import get_requires_for_build_sdist, get_requires_for_build_wheel  # noqa: F401

PROFILE = os.environ.get("REEF_BUILD_PROFILE", "release")
FEATURES = "cuda,hip,remote"
LIBRARIES = ["reef-shim", "reef-nvml-shim"]


DATA = Path("build/data")


def build_sdist(*args, **named):
    DATA.mkdir(parents=True, exist_ok=True)  # maturin wants it
    return maturin.build_sdist(*args, **named)


def prepare_metadata_for_build_wheel(*args, **named):
    DATA.mkdir(parents=True, exist_ok=True)
    return maturin.prepare_metadata_for_build_wheel(*args, **named)


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    _stage(Path.cwd())
    settings = dict(config_settings or {})
    settings.setdefault("build-args", f"--profile {PROFILE}")
    return maturin.build_wheel(wheel_directory, settings, metadata_directory)


def _stage(package: Path) -> None:
    """Builds the command and the libraries, and puts them where the wheel takes them from.

    A source distribution has the module alone.
    """
    if not (package.parent / "reef-cli").is_dir():
        DATA.mkdir(parents=True, exist_ok=True)
        print("reef: the wheel is without the command, which is built from a checkout")
        return
    cargo = ["cargo", "build", "--locked", "--profile", PROFILE]
    subprocess.run([*cargo, "-p", "reef-cli", "--features", FEATURES], cwd=package, check=True)
    libraries = [word for name in LIBRARIES for word in ("-p", name)]
    subprocess.run([*cargo, *libraries, "--lib"], cwd=package, check=True)
    target = Path(os.environ.get("CARGO_TARGET_DIR", package.parent / "target"))
    built = target / ("debug" if PROFILE == "dev" else PROFILE)
    data = package / DATA
    shutil.rmtree(data, ignore_errors=True)
    for name, folder in [
        ("reef", "scripts"),
        ("libreef_cuda_shim.so", "data/lib"),
        ("libreef_nvml_shim.so", "data/lib"),
    ]:
        (data / folder).mkdir(parents=True, exist_ok=True)
        shutil.copy2(built / name, data / folder / name)
        subprocess.run(["strip", "--strip-unneeded", data / folder / name], check=False)
