#!/usr/bin/env bash
# NVIDIA's own runtimes, shared and static, look up their functions through the shim, on the fake driver: none may be
# missing. Needs pip, unzip, cc and the package registry. cargo test -p reef-shim builds what it uses.
set -euo pipefail
cd "$(dirname "$0")/../.."
built=$PWD/${CARGO_TARGET_DIR:-target}/debug/deps
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

for wheel in nvidia-cuda-runtime-cu11==11.8.89 nvidia-cuda-runtime-cu12==12.1.105 nvidia-cuda-runtime-cu12==12.9.79 \
    nvidia-cuda-runtime==13.0.96 nvidia-cuda-runtime==13.5.37; do
    pip download --quiet --no-deps --dest "$work" "$wheel"
done
for wheel in "$work"/*.whl; do unzip -qo "$wheel" '*/lib/lib*' -d "$work/$(basename "$wheel" .whl)"; done
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
# Wheels from 12.9 on have the static runtime as well.
echo 'int cudaGetDeviceCount(int *); int main(void) { int n; cudaGetDeviceCount(&n); return 0; }' >"$work/program.c"
for archive in "$work"/*/nvidia/*/lib/libcudart_static.a; do
    folder=${archive%/*}
    culibos=$(ls "$folder"/libculibos.a 2>/dev/null || true)
    cc "$work/program.c" "$archive" $culibos -lpthread -ldl -lrt -o "$work/program"
    rm -f "$work/report"
    REEF_GUESTS=$work/none REEF_EXPLAIN=$work/report REEF_CUDA=$built/libfake_libcuda.so \
        LD_PRELOAD=$built/libreef_cuda_shim.so "$work/program"
    wheel=${folder#"$work"/}
    echo "libcudart_static.a of ${wheel%%-py3*}:$(grep 'looked up' "$work/report" | cut -d: -f2-)"
    grep -qE 'looked up by name: [34][0-9]{2}, .*not found: 0$' "$work/report"
done
