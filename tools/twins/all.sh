#!/usr/bin/env bash
# All that is measured of stops on a GPU, in one call of about seven minutes:
#   tools/twins/all.sh FOLDER OUT
# FOLDER has what tools/interpose/build.sh makes, and `corpus` (cargo build --release -p reef-ptx --example corpus). OUT gets a file
# for each step. Needs nvcc, ptxas, PyTorch, Triton, compute-sanitizer and MPS.
set -uo pipefail
folder=$(realpath "$1") out=$(realpath "$2")
cd "$(dirname "$0")"

step() { # NAME SECONDS COMMAND...
    echo "== $1 ($(date +%T))"
    timeout "$2" "${@:3}" >"$out/$1.txt" 2>&1
    echo "code $?" >>"$out/$1.txt"
    grep -v "guest 1" "$out/$1.txt" | tail -25
}

# Latencies under MPS, with rivals in the same run; with MPS's lower priority for the best-effort program.
step mps 80 ./processes.py "$folder" --mps --seconds 2 --only busy-20ms triton --ways none slices stops
step mps-1s 60 ./processes.py "$folder" --mps --seconds 5 --only busy-1s --ways none stops
step mps-low 80 ./processes.py "$folder" --mps --low --seconds 2 --only busy-20ms triton --ways none slices stops
step mps-1s-low 60 ./processes.py "$folder" --mps --low --seconds 5 --only busy-1s --ways none stops
# Blocks of 1.6 ms leave while they run.
step mps-looks 40 ./processes.py "$folder" --mps --seconds 2 --only busy-100ms --ways none stops
# 10,000 stops and more of each program, word by word; a training step.
step bits-triton 40 ./processes.py "$folder" --only triton --ways bits --launches 4000
step bits-busy 100 ./processes.py "$folder" --only busy-20ms --ways bits --launches 2000
step bits-compile 60 ./processes.py "$folder" --only compile --ways bits
# The sanitizers' tools under the library, while the program is held.
for tool in memcheck racecheck synccheck; do
    step "$tool" 60 ./processes.py "$folder" --only triton --ways bits --launches 30 --sanitizer "$tool"
done
# Twins alone: their cost, and stops in one context.
step run 120 ./run.py "$folder/corpus" --stops 2000 --seconds 60
step looks 90 bash -c "./looks.py build \"$folder/corpus\" /tmp/looks && ./looks.py run /tmp/looks"
