#!/usr/bin/env bash
# An open loop on the daemon, and on ONNX Runtime behind a plain HTTP server: the same model file, machine, run and
# generator. Real-time requests arrive at planned times (Poisson) and their latency counts from these, so a server that
# stalls can't hide it; without and with best-effort clients next to them that never pause. Needs a built program and a
# Python with numpy and onnxruntime ($PYTHON); no Rust, no network:
#
#   tools/serve_build.sh                             # where there is Rust
#   tools/load.sh -b target/serve -o FOLDER -m 8     # about 14 minutes in all; --help lists the options
#
# Prints each row when it has it and keeps it in FOLDER; called again, it goes on where it stopped.
# With eight cores or more the generator has four of its own. How long round trips take by each way: tools/round_trips.sh.
set -euo pipefail
cd "$(dirname "$0")/.."
exec "${PYTHON:-python3}" tools/load/run.py "$@"
