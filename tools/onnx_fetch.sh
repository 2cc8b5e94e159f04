#!/usr/bin/env bash
# Fetches the wheel of onnx 1.17.0 with pip (16 MB) into a folder outside of the repository, unless it is there, and
# prints where its test data are; REEF_ONNX names another folder.
set -euo pipefail
folder=${REEF_ONNX:-${TMPDIR:-/tmp}/reef-onnx-1.17.0}
if [ ! -d "$folder/onnx/backend/test/data/node" ]; then
    mkdir -p "$folder"
    python3 -m pip download --quiet --no-deps --only-binary :all: --dest "$folder" onnx==1.17.0 >&2
    python3 -m zipfile -e "$folder"/onnx-1.17.0-*.whl "$folder" >&2
fi
echo "$folder/onnx/backend/test/data"
