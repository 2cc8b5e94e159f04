#!/usr/bin/env bash
# NVIDIA's own runtimes look up their functions through the shim, on the fake driver: none may be missing.
# Needs pip, unzip and the package registry. cargo test -p reef-shim builds what it uses.
set -euo pipefail
cd "$(dirname "$0")/../.."
built=$PWD/${CARGO_TARGET_DIR:-target}/debug/deps
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

for wheel in nvidia-cuda-runtime-cu11==11.8.89 nvidia-cuda-runtime-cu12==12.1.105 nvidia-cuda-runtime-cu12==12.9.79 \
    nvidia-cuda-runtime==13.0.96 nvidia-cuda-runtime==13.5.37; do
    pip download --quiet --no-deps --dest "$work" "$wheel"
done
for wheel in "$work"/*.whl; do unzip -qo "$wheel" '*libcudart.so*' -d "$work/$(basename "$wheel" .whl)"; done
for runtime in "$work"/*/nvidia/*/lib/libcudart.so.*; do
    rm -f "$work/report"
    REEF_GUESTS=$work/none REEF_EXPLAIN=$work/report REEF_CUDA=$built/libfake_libcuda.so \
        LD_PRELOAD=$built/libreef_cuda_shim.so python3 - "$runtime" <<'PYTHON'
import ctypes
import os
import sys

runtime, count = ctypes.CDLL(sys.argv[1]), ctypes.c_int(-1)
runtime.cudaGetDeviceCount(ctypes.byref(count))  # the fake driver has no private tables, so it ends there
found, missing = ctypes.c_uint64(), ctypes.c_uint64()
ctypes.CDLL(os.environ["REEF_CUDA"]).reef_fake_lookups(ctypes.byref(found), ctypes.byref(missing))
print(os.path.basename(sys.argv[1]), "found", found.value, "missing", missing.value)
sys.exit(missing.value != 0 or found.value < 380)
PYTHON
    grep -E 'looked up|not scheduled' "$work/report" || true
done
