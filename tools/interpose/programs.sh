#!/usr/bin/env bash
# Eight small programs with NVIDIA's runtime linked statically: built with nvcc, and run under the shim on the fake driver
# as far as that goes (it has none of the driver's private tables, so the runtime looks up its functions and ends).
#   tools/interpose/programs.sh FOLDER        FOLDER gets the programs, for tools/gpu_interpose.sh
# With $NVCC that compiler, otherwise NVIDIA's packages from the package registry (100 MB), which need pip and unzip.
# cargo test -p reef-shim builds the libraries.
set -euo pipefail
cd "$(dirname "$0")/../.."
out=$(realpath -m "${1:?usage: programs.sh FOLDER}")
built=$(realpath -m "${CARGO_TARGET_DIR:-target}")/debug/deps
mkdir -p "$out"

if [ -z "${NVCC:-}" ]; then
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    for wheel in nvidia-cuda-nvcc==13.0.88 nvidia-nvvm==13.0.88 nvidia-cuda-crt==13.0.88 nvidia-cuda-runtime==13.0.96 \
        nvidia-cuda-cccl==13.0.85; do
        pip download --quiet --no-deps --dest "$work" "$wheel"
    done
    for wheel in "$work"/*.whl; do unzip -qo "$wheel" -d "$work/tree"; done
    chmod +x "$work"/tree/nvidia/cu13/bin/* "$work"/tree/nvidia/cu13/nvvm/bin/*
    NVCC="$work/tree/nvidia/cu13/bin/nvcc -L$work/tree/nvidia/cu13/lib"
fi
for program in streams events graphs cooperative managed conditional ends; do
    # Machine code for Hopper, and text that others compile themselves.
    $NVCC -O2 -std=c++17 -cudart static -gencode arch=compute_90,code=sm_90 -gencode arch=compute_80,code=compute_80 \
        "tools/interpose/programs/$program.cu" -o "$out/static-$program"
    report=$(mktemp)
    REEF_GUESTS=$out/none REEF_EXPLAIN=$report REEF_CUDA=$built/libfake_libcuda.so \
        LD_PRELOAD=$built/libreef_cuda_shim.so "$out/static-$program" >/dev/null 2>&1 || true
    line=$(grep 'looked up by name' "$report" || echo "  nothing was looked up")
    echo "static-$program:${line#*:}"
    if ! [[ $line =~ by\ name:\ ([0-9]+),.*not\ found:\ 0$ ]] || [ "${BASH_REMATCH[1]}" -lt 380 ]; then
        echo "static-$program: 380 names at least must be looked up, and all found" >&2
        exit 1
    fi
    rm -f "$report"
done
# Ways to hold memory, which needs the driver alone.
$NVCC -O2 -std=c++17 -cudart static -gencode arch=compute_90,code=sm_90 -gencode arch=compute_80,code=compute_80 \
    tools/interpose/programs/evade.cu -o "$out/static-evade" -ldl
said=$(REEF_ACCOUNTS=$out/evade-accounts REEF_MEMORY=1GiB REEF_CUDA=$built/libfake_libcuda.so REEF_FAKE_BYTES=8589934592 \
    LD_PRELOAD=$built/libreef_cuda_shim.so "$out/static-evade" alloc pools graph-typed heap-steps global host-pools)
echo "$said"
[[ $said == *"0 of 6 ways are wrong"* ]]
rm -rf "$out/evade-accounts"
