#!/usr/bin/env bash
# All that is measured of stops on a GPU, in four parts of three to seven minutes:
#   tools/variants/all.sh FOLDER OUT latency|bits|sanitizers|variants...
# FOLDER has what tools/interpose/build.sh makes, and `corpus` (cargo build --release -p reef-ptx --example corpus). OUT gets a file
# for each step. Needs nvcc, ptxas, PyTorch, Triton, compute-sanitizer and MPS.
set -uo pipefail
folder=$(realpath "$1") out=$(realpath "$2")
shift 2
cd "$(dirname "$0")"
failed=0

step() { # NAME SECONDS COMMAND...
    echo "== $1 ($(date +%T))"
    local code=0
    timeout "$2" "${@:3}" >"$out/$1.txt" 2>&1 || code=$?
    echo "code $code" >>"$out/$1.txt"
    grep -v "guest 1" "$out/$1.txt" | tail -25
    [ $code = 0 ] || failed=1
}

# Latencies under MPS, with rivals in the same run; with MPS's lower priority for the best-effort program.
latency() {
    step mps 80 python3 processes.py "$folder" --mps --seconds 2 --only busy-20ms triton --ways none slices stops
    step mps-1s 60 python3 processes.py "$folder" --mps --seconds 5 --only busy-1s --ways none stops
    step mps-low 80 python3 processes.py "$folder" --mps --low --seconds 2 --only busy-20ms triton --ways none slices stops
    step mps-1s-low 60 python3 processes.py "$folder" --mps --low --seconds 5 --only busy-1s --ways none stops
    step mps-graph 60 python3 processes.py "$folder" --mps --seconds 3 --only graph --ways none gates stops
    # Blocks of 1.6 ms leave while they run.
    step mps-preemption-points 40 python3 processes.py "$folder" --mps --seconds 2 --only busy-100ms --ways none stops
}

# 10,000 stops of programs and more, word by word; and a training step; then the sanitizer's tools.
bits() {
    local bits=(python3 processes.py "$folder" --seconds 1 --ways bits)
    step bits-triton 100 "${bits[@]}" --only triton --launches 4000
    step bits-busy 100 "${bits[@]}" --only busy-2ms
    step bits-compile 170 "${bits[@]}" --only compile
    step bits-graph 100 "${bits[@]}" --only graph --launches 4000
}
sanitizers() {
    local bits=(python3 processes.py "$folder" --seconds 1 --ways bits --only triton)
    step memcheck 70 "${bits[@]}" --launches 30 --sanitizer memcheck
    step synccheck 70 "${bits[@]}" --launches 60 --sanitizer synccheck
    step racecheck 120 "${bits[@]/triton/busy-2ms}" --launches 40 --sanitizer racecheck
}

# Variants alone: their cost, and stops in one context.
variants() {
    step run 120 python3 run.py "$folder/corpus" --stops 2000 --seconds 60
    step looks 90 bash -c "python3 points.py build \"$folder/corpus\" /tmp/looks && python3 points.py run /tmp/looks"
}

for part in "$@"; do
    "$part"
done
exit $failed
