#!/usr/bin/env bash
# Runs ONNX's own node tests on a device and writes a table of what came of them to docs/onnx-nodes.md:
#
#   tools/onnx_nodes.sh [DEVICE] [OPTIONS of reef model nodetest, such as --preempt]
#
# Fetches the wheel of onnx 1.17.0 with pip (16 MB) into a folder outside of the repository; REEF_ONNX names another one.
set -euo pipefail
cd "$(dirname "$0")/.."
device=${1:-cpu}
[ $# -eq 0 ] || shift
folder=${REEF_ONNX:-${TMPDIR:-/tmp}/reef-onnx-1.17.0}
if [ ! -d "$folder/onnx/backend/test/data/node" ]; then
    mkdir -p "$folder"
    python3 -m pip download --quiet --no-deps --only-binary :all: --dest "$folder" onnx==1.17.0
    python3 -m zipfile -e "$folder"/onnx-1.17.0-*.whl "$folder"
fi
table=$(mktemp)
trap 'rm -f "$table"' EXIT
cargo run --quiet --release -p reef-cli --no-default-features -- model nodetest \
    "$folder/onnx/backend/test/data/node" --device "$device" --report "$table" "$@"
{
    echo "# ONNX's node tests"
    echo
    echo "Written by \`tools/onnx_nodes.sh\`: each model of the node tests in onnx 1.17.0 with its own inputs, compared with its"
    echo "own outputs (relative difference 10⁻³, absolute 10⁻⁷, as ONNX's tests allow). *Refused* networks are not read."
    echo
    cat "$table"
} > docs/onnx-nodes.md
