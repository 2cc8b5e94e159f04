#!/usr/bin/env bash
# Runs ONNX's own node tests and its nine light networks on a device and writes tables of what came of them to
# docs/onnx-nodes.md:
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
data=$folder/onnx/backend/test/data
python3 tools/onnx_light.py "$data/light" "$folder/light"
table=$(mktemp) light=$(mktemp)
trap 'rm -f "$table" "$light"' EXIT
nodetest() { cargo run --quiet --release -p reef-cli --no-default-features -- model nodetest "$@"; }
nodetest "$data/node" --device "$device" --report "$table" "$@"
nodetest "$folder/light" --device "$device" --report "$light" "$@"
{
    echo "# ONNX's node tests"
    echo
    echo "Written by \`tools/onnx_nodes.sh\`: each model of the node tests in onnx 1.17.0 with its own inputs, compared with its"
    echo "own outputs (relative difference 10⁻³, absolute 10⁻⁷, as ONNX's tests allow). *Refused* networks are not read."
    echo
    cat "$table"
    echo
    echo "The nine light networks of the same wheel (AlexNet to VGG-19, 1x3x224x224), alike:"
    echo
    head -1 "$light"
} > docs/onnx-nodes.md
