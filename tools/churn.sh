#!/usr/bin/env bash
# A daemon's real-time tail while best-effort clients come and go, each a process: churn.sh REEF [DEVICE].
# CLIENTS (50) a second run 3 inferences each; ROUNDS (3) rounds of REQUESTS (2700, about 16 s), calm and with
# clients. Prints p50 and p99 in ms (from 5,000 requests on p99.9 as well), and how many clients came.
set -euo pipefail
reef=${1:?the binary} device=${2:-cuda:0}
clients=${CLIENTS:-50} rounds=${ROUNDS:-3} requests=${REQUESTS:-2700} visitor=${VISITOR:-resnet152}
folder=$(mktemp -d)
"$reef" serve --device "$device" --socket-dir "$folder" --set models.builtin=true --load "resnet50,$visitor" 2>"$folder/log" &
daemon=$!
trap 'kill $daemon 2>/dev/null; wait $daemon 2>/dev/null || true; rm -rf "$folder"' EXIT
for _ in $(seq 600); do
    "$reef" request resnet50 --socket-dir "$folder" --class rt >/dev/null 2>&1 && break
    sleep 0.2
done

real_time() { # one line of quantiles
    "$reef" request resnet50 --socket-dir "$folder" --class rt --json --requests "$requests" --sleep 5ms |
        python3 -c '
import json, sys
times = sorted(json.loads(line)["latency_ms"] for line in sys.stdin if "latency_ms" in line)
at = lambda q: times[min(len(times) - 1, int(q * len(times)))]
rare = f" {at(0.999):.3f}" if len(times) >= 5000 else ""
print(f"{at(0.5):.3f} {at(0.99):.3f}{rare} of {len(times)}")'
}

come_and_go() { # until the file is gone
    local count=0 gap
    gap=$(python3 -c "print(1 / $clients)")
    while [ -e "$folder/go" ]; do
        "$reef" request "$visitor" --socket-dir "$folder" --requests 3 >/dev/null 2>&1 &
        count=$((count + 1))
        sleep "$gap"
    done
    echo "$count" >"$folder/count"
}

for round in $(seq "$rounds"); do
    echo "round $round, calm: $(real_time)"
    touch "$folder/go"
    come_and_go &
    visits=$!
    echo "round $round, with clients: $(real_time)"
    rm "$folder/go"
    wait $visits
    echo "  $(cat "$folder/count") clients came"
done
