#!/usr/bin/env bash
# Clients that others made against a daemon: tools/outside.sh REEF [OPENAPI.yaml] [SECONDS]
#
# REEF is the command, such as target/release/reef; OPENAPI.yaml is KServe's description of the REST protocol
# (open-inference-protocol, specification/protocol/open_inference_rest.yaml), which schemathesis turns into requests. Installs
# tritonclient, grpcio-reflection, mlcommons-loadgen and schemathesis from PyPI into target/outside and prints the rows of a table.
set -euo pipefail
reef=$(realpath "${1:?usage: tools/outside.sh REEF [OPENAPI.yaml] [SECONDS]}")
openapi=${2:+$(realpath "$2")}
seconds=${3:-10}
cd "$(dirname "$0")/.."
venv=target/outside
if ! "$venv/bin/python" -c 'import tritonclient.grpc, mlperf_loadgen, schemathesis, grpc_reflection' 2>/dev/null; then
    python3 -m venv "$venv"
    "$venv/bin/python" -m pip install --quiet 'tritonclient[grpc,http]==2.73.0' 'mlcommons-loadgen==6.0.17' 'schemathesis==4.32.5' \
        'grpcio-reflection==1.76.0'
fi
folder=$(mktemp -d)
daemon=
trap '[ -z "$daemon" ] || kill "$daemon" 2>/dev/null || true; rm -rf "$folder"' EXIT
mkdir -p "$folder/models/tiny/1" "$folder/run"
chmod 700 "$folder/run"
printf 'network = "resnet18"\nsize = 32\nseed = 1\nmax_batch = 4\nmax_delay_us = 500\n' >"$folder/models/tiny/model.toml"
touch "$folder/models/tiny/1/note"
cat >"$folder/reef.toml" <<EOF
[listen]
folder = "$folder/run"
http = "127.0.0.1:18000"
grpc = "127.0.0.1:18001"
[models]
repository = "$folder/models"
load = ["tiny"]
[rights.others]
rt = true
[limits]
principal_percent = 100
EOF
"$reef" serve --config "$folder/reef.toml" >"$folder/log" 2>&1 &
daemon=$!
for _ in $(seq 100); do
    curl -fs http://127.0.0.1:18000/v2/health/ready >"$folder/ready" 2>&1 && break
    kill -0 "$daemon" || { cat "$folder/log"; exit 1; }
    sleep 0.2
done
timeout 300 "$venv/bin/python" tools/outside.py 127.0.0.1:18000 127.0.0.1:18001 "$seconds"
if [ -n "$openapi" ]; then
    sed 's/\${MODEL_\([A-Z]*\)}/{MODEL_\1}/g' "$openapi" >"$folder/openapi.yaml"
    (cd "$folder" && timeout 300 "$OLDPWD/$venv/bin/schemathesis" run openapi.yaml --url http://127.0.0.1:18000 \
        --checks not_a_server_error --max-examples 30 --seed 1 --no-color) >"$folder/schema" 2>&1 && how=passed || how=failed
    cases=$(grep -oE '[0-9]+ generated|Generated: *[0-9]+|[0-9]+ passed' "$folder/schema" | tail -1 || true)
    echo "| schemathesis, KServe's OpenAPI | no server error: $how${cases:+ ($cases)} | – | – |"
    [ "$how" = passed ] || { tail -60 "$folder/schema"; exit 1; }
fi
