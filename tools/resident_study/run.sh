#!/usr/bin/env bash
# Builds study.cu and runs it and peer.py on the first GPU, which nothing else may use: at most 3 min, of which nvcc takes one. Needs
# nvcc of CUDA 12.3 or later, a GPU of capability 9.0, and Python with PyTorch for the peer.
#   tools/resident_study/run.sh    OUT=FOLDER gets log.txt; PYTHON=python3 for the peer
set -euo pipefail
here=$(dirname "$(realpath "$0")")
export OUT=${OUT:-$(mktemp -d)}
PATH=$PATH:/usr/local/cuda/bin
program=${TMPDIR:-/tmp}/resident_study
{
    nvidia-smi -L
    nvidia-smi --query-gpu=driver_version,clocks.sm,clocks.max.sm --format=csv,noheader
    uname -r
    nvcc --version | tail -n 1
    nvcc -std=c++17 -O3 -arch=sm_90 --resource-usage -o "$program" "$here/study.cu" 2>&1 |
        { grep "Used\|error\|fatal\|warning\|spill" || true; }
    failed=0
    timeout 80 "$program" || failed=$?
    for build in fused compile; do
        timeout 50 "${PYTHON:-python3}" "$here/peer.py" "$build" || echo "peer $build: exit status $?"
    done
    echo "study: exit status $failed"
    exit "$failed"
} 2>&1 | tee "$OUT/log.txt"
