#!/usr/bin/env bash
# Builds study.cu and runs it on the first GPU, which nothing else may use: at most a minute, of which nvcc takes up to 20 s. Needs nvcc of
# CUDA 12.3 or later and a GPU of capability 9.0.
#   tools/side_by_side/run.sh    OUT=FOLDER gets log.txt; NVCC_FLAGS for its folders
set -euo pipefail
here=$(dirname "$(realpath "$0")")
OUT=${OUT:-$(mktemp -d)}
PATH=$PATH:/usr/local/cuda/bin
program=${TMPDIR:-/tmp}/side_by_side
{
    nvidia-smi -L
    nvidia-smi --query-gpu=driver_version,clocks.sm,clocks.max.sm --format=csv,noheader
    uname -r
    nvcc --version | tail -n 1
    # shellcheck disable=SC2086 # several words
    nvcc -std=c++17 -O3 -arch=sm_90 ${NVCC_FLAGS:-} -o "$program" "$here/study.cu"
    failed=0
    timeout 60 "$program" || failed=$?
    echo "study: exit status $failed"
    exit "$failed"
} 2>&1 | tee "$OUT/log.txt"
