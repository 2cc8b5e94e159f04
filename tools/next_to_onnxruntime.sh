#!/usr/bin/env bash
# ResNet-50, or the network of a file, on the software device and in ONNX Runtime, in turns, so that both see the same
# machine. Where others work on it, compare processor times, with one unit.
#   pip install onnx onnxruntime numpy
#   tools/next_to_onnxruntime.sh [TURNS [UNITS [FILE.onnx]]]
set -euo pipefail
cd "$(dirname "$0")/.."
turns=${1:-6} units=${2:-$(nproc)} file=${3:-}
cargo bench --quiet -p reef-rt --bench inference --no-run
for _ in $(seq "$turns"); do
    cargo bench --quiet -p reef-rt --bench inference -- "${file:-resnet50}" "$units" 30
    python3 tools/onnxruntime_resnet50.py "$units" 30 ${file:+"$file"} | tail -n 1
done
uptime
