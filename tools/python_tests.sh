#!/usr/bin/env bash
# Tests the Python package: builds its module, lays everything out as the wheel does in a new virtual environment
# (target/python), and runs the tests, the examples of the docs, the types, and the command. Skipped aloud where Python
# 3.10 or NumPy can't be had.
set -euo pipefail
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-$PWD/target}
environment=$target/python

skip() { echo "skipped: Python package: $1"; exit 0; }
python3 -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null || skip "no Python 3.10 or later"
rm -rf "$environment"
python3 -m venv "$environment" || skip "no virtual environment"
"$environment/bin/pip" install --quiet "numpy>=1.24" "onnx>=1.16" "mypy>=1.11" || skip "NumPy, ONNX and mypy can't be installed"

# With all members, so that what the tests compiled is used.
cargo build --quiet --workspace --lib --bins
packages=$("$environment/bin/python" -c 'import sysconfig; print(sysconfig.get_path("platlib"))')
cp -r reef-python/python/reef "$packages/"
cp "$target/debug/lib_reef.so" "$packages/reef/_reef.abi3.so"
cp "$target/debug/reef" "$environment/bin/"
mkdir -p "$environment/lib"
cp "$target"/debug/libreef_{cuda,nvml}_shim.so "$environment/lib/"

export PATH=$environment/bin:$PATH
python -m unittest discover --start-directory reef-python/tests
(cd reef-python && mypy --strict python/reef)
reef devices | grep -q cpu
reef exec --explain -- true 2>&1 | grep -q "$environment/lib/libreef_cuda_shim.so" ||
    echo "skipped: Python package: reef exec has no driver here"
