#!/usr/bin/env bash
# run.sh PYTHON: the tests of engines for which this Python has the packages, on the driver for tests. The command `reef` is in
# PATH and the package `reef` importable; $REEF_CUDA names the driver. What is not installed is skipped aloud.
set -euo pipefail
cd "$(dirname "$0")"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
failed=()
for pair in compare:json slurm:json ray:ray front:ray torchrun:torch kserve:kserve serving:transformers; do
    name=${pair%:*} package=${pair#*:}
    if ! "$1" -c "import importlib.util, sys; sys.exit(importlib.util.find_spec('$package') is None)"; then
        echo "skipped: engines: $name: $package is not installed"
    elif timeout 600 "$1" -m unittest "test_$name" >"$log" 2>&1; then
        echo "engines: $name: $(tail -n 1 "$log")"
    else
        cat "$log"
        failed+=("$name")
    fi
done
command -v vllm >/dev/null || echo "skipped: engines: vllm is not installed"
echo "skipped: engines: Slurm itself: tools/engines/slurm.sh makes a root of its own, by hand"
[ ${#failed[@]} = 0 ] || { echo "FAILED: engines: ${failed[*]}"; exit 1; }
