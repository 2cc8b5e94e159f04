#!/usr/bin/env bash
# Builds padding.cu and runs it on the first GPU, which nothing else may use: 10 ways, 56 pairs, at most 150 s. Needs nvcc of CUDA 12
# or later and a GPU of capability 9.0.
#   tools/padding_study/run.sh    OUT=FOLDER gets padding.tsv and log.txt; SECONDS_LEFT=135 after which no pair begins
set -euo pipefail
here=$(dirname "$(realpath "$0")")
export OUT=${OUT:-$(mktemp -d)}
PATH=$PATH:/usr/local/cuda/bin
{
    nvidia-smi -L
    nvidia-smi --query-gpu=driver_version --format=csv,noheader
    uname -r
    nvcc --version | tail -n 1
    nvcc -std=c++20 -O3 -arch=sm_90 --resource-usage -o "${TMPDIR:-/tmp}/padding" "$here/padding.cu" -lcuda 2>&1 |
        { grep "Used\|error\|warning\|spill" || true; }
    timeout 170 "${TMPDIR:-/tmp}/padding" "${SECONDS_LEFT:-135}"
} 2>&1 | tee "$OUT/log.txt"
