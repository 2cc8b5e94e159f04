#!/usr/bin/env bash
# Reads a made picture of text with three trained networks, those of the Python package rapidocr_onnxruntime 1.4.4, by
# examples/ocr.rs, and compares what each network made of what it was given with ONNX Runtime, and with `reef run
# --preempt`:
#
#   tools/ocr.sh [FOLDER]
#
# FOLDER, outside of the repository, gets the package (16 MB, fetched by pip) and all arrays. Python needs numpy, onnxruntime and
# pillow (REEF_PYTHON names another one than python3). Exit code 1 if a line is not read or an output differs.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${REEF_PYTHON:-python3}
folder=${1:-${TMPDIR:-/tmp}/reef-ocr}
models=$folder/rapidocr_onnxruntime/models
mkdir -p "$folder/out"
if [ ! -f "$models/ch_PP-OCRv4_det_infer.onnx" ]; then
    "$python" -m pip download --quiet --no-deps --only-binary :all: --dest "$folder" rapidocr_onnxruntime==1.4.4
    "$python" -m zipfile -e "$folder"/rapidocr_onnxruntime-1.4.4-*.whl "$folder"
fi
rm -f "$folder"/out/*.npy
"$python" tools/ocr.py picture "$folder/text.png"
cargo build --quiet --release -p reef-rt --features images --example ocr
cargo build --quiet --release -p reef-cli --no-default-features
target=${CARGO_TARGET_DIR:-target}/release
"$target/examples/ocr" "$folder/text.png" "$models" "$folder/out" | tee "$folder/read.txt"
"$python" tools/ocr.py compare "$folder" "$target/reef"
