#!/usr/bin/env bash
# run.sh PYTHON: the tests of engines for which this Python has the packages, on the driver for tests. The command `reef` is in
# PATH and the package `reef` importable; $REEF_CUDA names the driver. What is not installed is skipped aloud.
set -euo pipefail
cd "$(dirname "$0")"
for name in ray torchrun kserve serving; do
    echo "-- $name"
    timeout 600 "$1" -m unittest "test_$name" 2>&1 | grep -v '^\s*$' | grep -Ev '^\S*\((raylet|pid=)' || { echo "FAILED: $name"; failed=1; }
    "$1" - "$name" <<'PYTHON'
import importlib.util, sys

package = {"torchrun": "torch", "serving": "transformers"}.get(sys.argv[1], sys.argv[1])
if importlib.util.find_spec(package) is None:
    print(f"skipped: engines: {package} is not installed")
PYTHON
done
exit "${failed:-0}"
