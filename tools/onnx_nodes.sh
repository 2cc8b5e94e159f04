#!/usr/bin/env bash
# Runs ONNX's own node tests of an older and of a newer version, and the older one's nine light networks, on a device and
# writes tables of what came of them to docs/onnx-nodes.md:
#
#   tools/onnx_nodes.sh [DEVICE] [OPTIONS of reef model verify, such as --preempt]
#
# The test data are those that tools/onnx_fetch.sh fetches.
#
#   tools/onnx_nodes.sh --software [COUNT]
#
# runs a sample of COUNT node tests (default 100), spread over all of them, on the software gfx906 instead, with
# preemptions, and writes nothing. It needs AMD's runtime (tools/install_amd.sh).
set -euo pipefail
cd "$(dirname "$0")/.."
device=${1:-cpu}
[ $# -eq 0 ] || shift
data=$(tools/onnx_fetch.sh)
if [ "$device" = --software ]; then
    mapfile -t all < <(ls -d "$data"/node/*/)
    sample=()
    for ((k = 0; k < ${1:-100}; k++)); do sample+=("${all[k * ${#all[@]} / ${1:-100}]}"); done
    cargo build --quiet --workspace --bin reef --features reef-cli/gfx906-sim
    exec "${CARGO_TARGET_DIR:-target}/debug/reef" --gfx906-sim model verify --against onnx-tests --device hip:0 --preempt --list "${sample[@]}"
fi
folder=${data%/onnx/backend/test/data}
python3 tools/onnx_light.py "$data/light" "$folder/light"
newer=$(tools/onnx_fetch.sh 1.23.2)
table=$(mktemp) light=$(mktemp) new=$(mktemp)
trap 'rm -f "$table" "$light" "$new"' EXIT
nodetest() { cargo run --quiet --release -p reef-cli --no-default-features -- model verify --against onnx-tests "$@"; }
nodetest "$data/node" --device "$device" --report "$table" "$@"
nodetest "$folder/light" --device "$device" --report "$light" "$@"
nodetest "$newer/node" --device "$device" --report "$new" "$@"
{
    echo "# ONNX's node tests"
    echo
    echo "Written by \`tools/onnx_nodes.sh\`: each model of the node tests in onnx 1.17.0 with its own inputs, compared with its"
    echo "own outputs (relative difference 10⁻³, absolute 10⁻⁷, as ONNX's tests allow). *Refused* networks are not read."
    echo
    cat "$table"
    echo
    echo "What fails of \`QLinearMatMul\` are numbers out of range, which the wheel has as what is left of them in 8 bits; the standard, ONNX Runtime"
    echo "and REEF have the bound. So it is with \`Cast\` to 4 bits; the newer tests have the bound. An inverse DFT differs in a number that is nearly zero,"
    echo "\`MaxUnpool\` has the positions of ONNX Runtime, and \`AveragePool\` counts elements beyond an edge as newer tests do."
    echo "The numbers of \`adam_multiple\` are of an epsilon that its node does not have; the newer test has it."
    echo
    echo "The nine light networks of the same wheel (AlexNet to VGG-19, 1x3x224x224), alike:"
    echo
    head -1 "$light"
    echo
    echo "## onnx 1.23.2"
    echo
    echo "The node tests of onnx 1.23.2, alike. Those of operator sets 23 and 24 are among them as its text has them; those of"
    echo "1.19 to 1.22 have \`Attention\` otherwise (soft caps behind masks, other numbers of modes). What fails with bfloat16 or"
    echo "float16 differs in the last place or two: softmax and sums are made in 32 bits here."
    echo
    cat "$new"
} > docs/onnx-nodes.md
