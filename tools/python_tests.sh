#!/usr/bin/env bash
# Tests the Python package: builds its module, lays everything out as the wheel does in a new virtual environment
# (target/python), and runs the tests, the examples of the docs, the types, and the command. A part of the tests runs with
# each other Python from 3.10 to 3.14 that is installed, and those of PyTorch with one that has it. What can't be had here is
# skipped aloud.
set -euo pipefail
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-$PWD/target}
environment=$target/python

left_out() { echo "skipped: Python package: $1"; }
skip() { left_out "$1"; exit 0; }
python3 -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null || skip "no Python 3.10 or later"
rm -rf "$environment"
python3 -m venv "$environment" || skip "no virtual environment"
"$environment/bin/pip" install --quiet "numpy>=1.24" "onnx>=1.16" "mypy>=1.11" "maturin>=1.9,<2" "wheel>=0.38" || skip "NumPy, ONNX, mypy, maturin and wheel can't be installed"

# With all members, so that what the tests compiled is used.
cargo build --quiet --workspace --lib --bins
packages=$("$environment/bin/python" -c 'import sysconfig; print(sysconfig.get_path("platlib"))')
cp -r crates/reef-python/python/reef "$packages/"
cp "$target/debug/lib_reef.so" "$packages/reef/_reef.abi3.so"
cp "$target/debug/reef" "$environment/bin/"
mkdir -p "$environment/lib/reef"
cp "$target"/debug/libreef_{cuda,nvml}_shim.so "$environment/lib/reef/"

export PATH=$environment/bin:$PATH
export REEF_TEST_FAKE_DRIVER=$target/debug/libfake_libcuda.so
tests() { "$1" -W error::ResourceWarning -m unittest discover --start-directory crates/reef-python/tests "${@:2}"; }
tests python
(cd crates/reef-python && mypy --strict python/reef)
tools/python_reference.py --check
if "$environment/bin/pip" install --quiet "pyright>=1.1.380" && pyright --version >/dev/null 2>&1; then
    pyright --level error --pythonpath "$environment/bin/python" crates/reef-python/python/reef
    (cd "$environment" && pyright --verifytypes reef --ignoreexternal >pyright.log || { cat pyright.log; exit 1; })
else
    left_out "pyright can't be installed"
fi
reef devices | grep -q cpu
# It has found its library; a file has to stand for the driver.
REEF_CUDA=/bin/false reef exec --explain --call-profile -- true 2>&1 | grep python/lib/reef/libreef_cuda_shim.so

# The package alone, for other interpreters.
alone=$environment/alone
mkdir "$alone"
cp -r "$packages/reef" "$alone/"
own=$(python -c 'import sys; print(sys.version_info[1])')
for minor in 10 11 12 13 14; do
    if [ "$minor" = "$own" ]; then continue; fi
    other=
    for found in "python3.$minor" "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3."$minor".*/bin/python3; do
        if "$found" -c "import sys; sys.exit(sys.version_info[:2] != (3, $minor))" 2>/dev/null; then other=$found; fi
    done
    if [ -z "$other" ]; then
        left_out "no Python 3.$minor"
    elif ! { "$other" -m venv "$environment/3.$minor" && "$environment/3.$minor/bin/pip" install --quiet "numpy>=1.24"; }; then
        left_out "no NumPy for Python 3.$minor"
    else
        PYTHONPATH=$alone tests "$environment/3.$minor/bin/python" --pattern "test_[agr]*.py" \
            -k both_classes -k unknown_names -k Absent -k forked -k capsules_have -k slot_is_filled
    fi
done
torch=
for found in python3 /usr/bin/python3; do
    if "$found" -c 'import numpy, torch' 2>/dev/null; then torch=$found; fi
done
if [ -n "$torch" ]; then
    PYTHONPATH=$alone tests "$torch" --pattern "test_[at]*.py"
else
    left_out "no Python here has torch: the tests of its modules did not run"
fi

# The arithmetic of measured pairs.
python -W error::ResourceWarning -m unittest discover --start-directory tools/pairs

# Engines that start Python programs, as far as a Python here has them.
PYTHONPATH=$alone REEF_CUDA=$REEF_TEST_FAKE_DRIVER tools/engines/run.sh "${torch:-python}"
tools/engines/systemd.sh
