#!/usr/bin/env bash
# Cost of the daemon's polls of a guest's page (docs/interpose.md, "Next to the daemon's own models"): the processor's time of
# the thread that polls, while a real-time guest is there, with and without best-effort requests. On the CPU device and
# the fake driver; needs python3, and what `cargo build -p reef-cli` and `cargo test -p reef-cli --test integration --no-run` built.
#   tools/interpose/page_polls.sh [SECONDS]       (default: 10 for each row)
set -euo pipefail
cd "$(dirname "$0")/../.."
seconds=${1:-10}
built=$PWD/${CARGO_TARGET_DIR:-target}/${PROFILE:-debug}
folder=$(mktemp -d)
export REEF_CUDA=$built/deps/libfake_libcuda.so REEF_SHIM=$built/deps/libreef_cuda_shim.so
pids=()
trap 'kill "${pids[@]}" 2>/dev/null; wait 2>/dev/null; rm -rf "$folder"' EXIT
uuid=$(printf 'fake device no 0' | od -An -tx1 | tr -d ' \n')

"$built/reef" serve --device "cpu:0?uuid=$uuid" --socket-dir "$folder" --guests --set models.builtin=true >/dev/null 2>"$folder/log" &
daemon=$!
pids+=("$daemon")
for _ in $(seq 200); do [ -S "$folder/guests.sock" ] && break; sleep 0.1; done

polls() { # LABEL: the part of a core that the thread took
    local of
    for of in /proc/"$daemon"/task/*; do [ "$(cat "$of/comm")" = reef-guests ] && break; done
    local before after
    sleep 1
    read -r before _ <"$of/schedstat"
    sleep "$seconds"
    read -r after _ <"$of/schedstat"
    awk -v label="$1" -v took=$((after - before)) -v time="$seconds" \
        'BEGIN { printf "%s: %.2f %% of a core\n", label, took / time / 1e7 }'
}
polls "no real-time guest"
# One launch, which the driver refuses, makes it a guest. Then it sleeps.
"$built/reef" exec --socket-dir "$folder" --class rt -- python3 -c '
import ctypes, time
cuda = ctypes.CDLL("libcuda.so.1")
cuda.cuInit(0), cuda.cuCtxSetCurrent(ctypes.c_void_p(1))
cuda.cuLaunchKernel(None, 1, 1, 1, 1, 1, 1, 0, None, None, None)
time.sleep(3600)' &
pids+=($!)
polls "a real-time guest, no requests (a poll each millisecond)"
"$built/reef" request resnet18 --socket-dir "$folder" --continuous >/dev/null &
pids+=($!)
polls "a real-time guest next to best-effort requests (a poll each 50 µs)"
echo "load: $(cut -d' ' -f1 /proc/loadavg), $(nproc) cores"
