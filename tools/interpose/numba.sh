#!/usr/bin/env bash
# numba, as the package registry has it, opens the driver as libcuda.so, which a preloaded library's name does not match:
# shows which file's functions it gets on the fake driver, with the variable that `reef exec` sets and without it.
# Needs python3 with venv, and the package registry. `cargo test -p reef-shim` builds what it uses.
set -euo pipefail
cd "$(dirname "$0")/../.."
built=${CARGO_TARGET_DIR:-$PWD/target}/debug/deps
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check numba==0.68.1
# A driver as an installation has it: a file, its name of the linker, and its name of the compiler.
cp "$built/libfake_libcuda.so" "$work/libcuda.so.595"
ln -s libcuda.so.595 "$work/libcuda.so.1"
ln -s libcuda.so.1 "$work/libcuda.so"

got() {
    LD_LIBRARY_PATH=$work LD_PRELOAD=$built/libreef_cuda_shim.so REEF_CUDA=$work/libcuda.so.595 \
        "$work/venv/bin/python" - <<'PYTHON'
import ctypes
from numba.cuda.cudadrv.driver import find_driver


class Info(ctypes.Structure):
    _fields_ = [("file", ctypes.c_char_p), ("base", ctypes.c_void_p), ("name", ctypes.c_char_p), ("at", ctypes.c_void_p)]


info, driver = Info(), find_driver()
ctypes.CDLL(None).dladdr(ctypes.cast(driver.cuLaunchKernel, ctypes.c_void_p), ctypes.byref(info))
print(info.file.decode().rsplit("/", 1)[-1])
PYTHON
}

alone=$(got)
named=$(NUMBA_CUDA_DRIVER=$built/libreef_cuda_shim.so got)
echo "preloaded alone: numba gets $alone; with NUMBA_CUDA_DRIVER: $named"
[ "$named" = libreef_cuda_shim.so ]
