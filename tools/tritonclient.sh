#!/usr/bin/env bash
# Installs the stock tritonclient, gRPC's reflection client and OpenAI's client from PyPI into target/tritonclient, one
# caller at a time, and prints that Python's path.
# Says `skipped: <reason>` and fails where it can't be had.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=target/tritonclient
python=$venv/bin/python
mkdir -p target
exec 9>target/tritonclient.lock && flock 9
if ! "$python" -c 'import tritonclient.grpc, tritonclient.http, grpc_reflection, openai' 2>/dev/null; then
    python3 -m venv "$venv" >&2 || { echo "skipped: no python3 with venv"; exit 1; }
    "$python" -m pip install --quiet 'tritonclient[grpc,http]==2.73.0' 'grpcio-reflection==1.76.0' 'openai==3.57.0' >&2 ||
        { echo "skipped: tritonclient could not be installed"; exit 1; }
fi
echo "$PWD/$python"
