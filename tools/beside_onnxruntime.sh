#!/usr/bin/env bash
# ResNet-50 on the software device and in ONNX Runtime, in turns, so that both see the same machine.
#   pip install onnx onnxruntime numpy
#   tools/beside_onnxruntime.sh [turns]
set -euo pipefail
cd "$(dirname "$0")/.."
cargo bench --quiet --bench inference --no-run
for _ in $(seq "${1:-6}"); do
    cargo bench --quiet --bench inference
    python3 tools/onnxruntime_resnet50.py "$(nproc)" 30 | tail -n 1
done
