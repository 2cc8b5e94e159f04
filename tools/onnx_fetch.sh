#!/usr/bin/env bash
# Fetches a version of the package onnx with pip into a folder outside of the repository, unless it is there, and prints
# where its test data are:
#
#   tools/onnx_fetch.sh [VERSION]
#
# Without VERSION it is 1.17.0, whose wheel (16 MB) has the data of its node tests. Wheels from 1.23 on have the programs
# that make them instead (with numpy 70 MB), and tools/onnx_cases_of.py runs those. REEF_ONNX names the folder for it.
set -euo pipefail
cd "$(dirname "$0")/.."
version=${1:-1.17.0}
folder=${REEF_ONNX:-${TMPDIR:-/tmp}}/reef-onnx-$version
data=$folder/onnx/backend/test/data
if [ ! -d "$data/node" ]; then
    mkdir -p "$folder"
    if [ "$(printf '%s\n' 1.23 "$version" | sort -V | head -1)" = 1.23 ]; then
        python3 -m pip install --quiet --only-binary :all: --target "$folder" "onnx==$version" >&2
        PYTHONPATH=$folder python3 -W ignore tools/onnx_cases_of.py "$data/node.part"
        mv "$data/node.part" "$data/node"
    else
        python3 -m pip download --quiet --no-deps --only-binary :all: --dest "$folder" "onnx==$version" >&2
        python3 -m zipfile -e "$folder/onnx-$version"-*.whl "$folder" >&2
    fi
fi
echo "$data"
