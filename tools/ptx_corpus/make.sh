#!/usr/bin/env bash
# Makes the large corpus of device code without a GPU, and its tables: tools/ptx_corpus/make.sh [FOLDER [RESULTS]]
# Packages come from pip into a virtual environment in FOLDER (target/ptx-corpus), which takes 3 GB. It has nvcc, ptxas,
# Triton, numba and CUB. The tables go to RESULTS, or to FOLDER/results.
set -euo pipefail
cd "$(dirname "$0")/../.."
folder=${1:-target/ptx-corpus}
results=${2:-$folder/results}
mkdir -p "$folder/files" "$folder/variants" "$results"
folder=$(realpath "$folder")

venv=$folder/venv
if [[ ! -x $venv/bin/python ]]; then
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --no-cache-dir nvidia-cuda-nvcc nvidia-nvvm nvidia-cuda-crt nvidia-cuda-runtime \
        nvidia-cuda-cccl nvidia-cuda-nvrtc triton numba-cuda
fi
cuda=$(dirname "$(dirname "$(echo "$venv"/lib/python3*/site-packages/nvidia/cu*/bin/nvcc)")")
export PATH=$cuda/bin:$PATH

if [[ ! -f $folder/files/made ]]; then
    # The images that ship, which are packed with zlib.
    for image in crates/images/reef-cuda-images-sm80/compute_80/{builtin,network,tensor}-{plain,guarded}-compute_80.z; do
        python3 -c 'import sys, zlib; sys.stdout.buffer.write(zlib.decompress(sys.stdin.buffer.read()))' \
            <"$image" >"$folder/files/own-$(basename "$image" .z).ptx"
    done
    cp interpose/reef-ptx/tests/corpus/{simple,waiting,looks}.ptx "$folder/files/"
    for arch in 80 90; do
        nvcc -std=c++17 -arch=sm_$arch -lineinfo -ptx -I "$cuda/include/cccl" -I "$cuda/cccl/include" \
            tools/ptx_corpus/algorithms.cu -o "$folder/files/cub-$arch.ptx"
    done
    TRITON_CACHE_DIR=$folder/triton "$venv/bin/python" tools/ptx_corpus/kernels.py "$folder/files" interpose/reef-ptx/tests/corpus
    touch "$folder/files/made"
fi

"${CARGO:-cargo}" build --quiet -p reef-ptx --example corpus
target/debug/examples/corpus --variants "$folder/variants" "$folder"/files/*.{ptx,cubin} >"$folder/table.tsv"
"$venv/bin/python" tools/ptx_corpus/tables.py "$folder" "$cuda/bin/ptxas" "$results"
