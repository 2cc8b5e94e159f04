#!/usr/bin/env python3
"""Names of the driver's functions, by the versions of CUDA whose headers have them.

    tools/interpose/names.py # writes interpose/reef-cuda-abi/names.txt anew

A line is a name, and the first and the last version. `runtime` instead of versions: no header has the name, but NVIDIA's
runtimes look it up (`tools/interpose/cudart.sh`); such lines are kept from the file as it is. Fetches the headers from
the package registry with pip. Add a release to WHEELS when there is one; the tests of reef-shim then say which of its
names have no treatment in interpose/reef-shim/treatments.txt.
"""

import pathlib
import re
import subprocess
import sys
import tempfile
import zipfile

WHEELS = {
    "nvidia-cuda-runtime-cu11": ["11.8.89"],
    "nvidia-cuda-runtime-cu12": [
        "12.0.107", "12.1.105", "12.2.140", "12.3.101", "12.4.127", "12.5.82", "12.6.77", "12.8.90", "12.9.79",
    ],
    "nvidia-cuda-runtime": ["13.0.96", "13.1.80", "13.2.75", "13.3.29", "13.4.92", "13.5.37"],
}
HEADERS = ("cuda.h", "cudaGL.h", "cudaEGL.h", "cudaVDPAU.h", "cudaProfiler.h")
KEPT = pathlib.Path(__file__).resolve().parents[2] / "interpose" / "reef-cuda-abi" / "names.txt"
LOOKED_UP = "runtime"

COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
DECLARED = re.compile(r"\bCUDAAPI\s+(cu[A-Z]\w*)\s*\(")
# A name that stands for another: `#define cuMemAlloc cuMemAlloc_v2`, `#define cuMemcpy __CUDA_API_PTDS(cuMemcpy)`.
DEFINED = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(cu[A-Z]\w*)[ \t]+(?:__CUDA_API_(PTSZ|PTDS)\()?(cu[A-Z]\w*)", re.M)


def names_of(text):
    """The functions that a header declares."""
    text = COMMENT.sub(" ", text)
    names = set(DECLARED.findall(text))
    for alias, suffix, name in DEFINED.findall(text):
        if alias in names or name in names:
            names.add(name)
            if suffix:
                names.add(f"{name}_{suffix.lower()}")
    return names


def headers(wheel):
    """The texts of a wheel's headers."""
    with zipfile.ZipFile(wheel) as archive:
        for entry in archive.namelist():
            if entry.rsplit("/", 1)[-1] in HEADERS:
                yield archive.read(entry).decode("utf-8", "replace")


def main():
    found = {}
    versions = []
    with tempfile.TemporaryDirectory() as folder:
        for package, releases in WHEELS.items():
            for release in releases:
                command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
                subprocess.run([*command, "--dest", folder, f"{package}=={release}"], check=True)
                wheel = next(pathlib.Path(folder).glob(f"*-{release}-*.whl"))
                version = ".".join(release.split(".")[:2])
                versions.append(version)
                for text in headers(wheel):
                    for name in names_of(text):
                        found.setdefault(name, []).append(version)
    spans = {name: (had[0], had[-1]) for name, had in found.items()}
    for line in KEPT.read_text().splitlines():
        name, *rest = line.split()
        if name not in spans and (not rest or rest == [LOOKED_UP]):
            spans[name] = (LOOKED_UP,)
    # A redirection would empty the file before its lines are read.
    KEPT.write_text("".join(" ".join((name, *span)) + "\n" for name, span in sorted(spans.items())))


main()
