#!/usr/bin/env bash
# Runs what needs an NVIDIA GPU, with what gpu_build.sh built:
#
#     gpu_run.sh FOLDER RESULTS [tests|networks|pair|preempt|all]
#
# On an H200 each part takes three to six minutes.
set -uo pipefail
folder=$(realpath "${1:?where the executables are}")
results=$(realpath -m "${2:?where results go}")
what=${3:-all}
cd "$(dirname "$0")/.."
mkdir -p "$results"
failed=0

run() { # NAME SECONDS COMMAND...
    local name=$1 limit=$2 code=0
    shift 2
    echo "== $name: $*"
    timeout "$limit" "$@" >"$results/$name.log" 2>&1 || code=$?
    if [ $code -ne 0 ]; then
        failed=1
        tail -n 15 "$results/$name.log"
    fi
    grep -hE '^test result|SUMMARY|off by' "$results/$name.log" | sort | uniq -c | head -20
    echo "   exit code $code"
}

tests() {
    run lost 60 "$folder/lost" --nocapture
    run given_up 60 "$folder/given_up" --nocapture
    run modules 60 "$folder/modules"
    run foreign 60 "$folder/gates"
    REEF_CONFORMANCE_CYCLES=${REEF_CONFORMANCE_CYCLES:-100000} \
        run conformance 200 "$folder/conformance" cuda:: --test-threads=4
    # One at a time: a driver call that waits for the whole device opens the gates of others.
    REEF_CONFORMANCE_CYCLES=${REEF_CONFORMANCE_CYCLES:-10000} \
        run gates 200 "$folder/conformance" cuda_gates:: --test-threads=1
    run networks 200 "$folder/networks" cuda:: --nocapture --test-threads=2
    for tool in memcheck racecheck; do
        # Functions are asked for parameters until they have none, which is no error of ours.
        REEF_CONFORMANCE_CYCLES=40 run $tool 100 compute-sanitizer --tool $tool --report-api-errors no \
            "$folder/conformance" cuda:: --test-threads=1
    done
}

# Ours and its peer take turns, so that the clocks of the GPU are the same for both.
networks() {
    for turn in 1 2; do
        for precision in tf32 fp16; do
            "$folder/reef" bench networks --device "cuda:0?precision=$precision" --seconds 1.5 \
                --out "$results/$precision-$turn" 2>/dev/null
        done
        REEF_CACHE="$results/cache" "$folder/reef" bench networks --device "cuda:0?tune=on" \
            --seconds 1.5 --out "$results/tuned-$turn" 2>/dev/null
        python3 tools/cudnn.py 1.5 2>/dev/null | tee "$results/cudnn-$turn.txt"
    done
}

pair() {
    local options="--window 2 --seconds 4 --closed"
    "$folder/reef" bench pair --device cuda:0 $options --out "$results/pair" 2>/dev/null
    for split in 32 64; do # green contexts
        "$folder/reef" bench pair --device "cuda:0?split=$split" $options --only stream-priority \
            --out "$results/pair-split$split" 2>/dev/null
    done
}

preempt() {
    "$folder/reef" bench preempt --device cuda:0 --window 2 --queued 1,64 --seconds 3 \
        --out "$results/preempt" 2>/dev/null
    for gates in 1 4; do # kernels without guards
        "$folder/reef" bench preempt --device "cuda:0?gates=$gates" --window 2 --queued 1,64 --seconds 3 \
            --only DeviceQueue --out "$results/preempt-gates$gates" 2>/dev/null
    done
}

case $what in
all) tests; networks; pair; preempt ;;
tests | networks | pair | preempt) $what ;;
*) echo "no part $what" >&2; failed=2 ;;
esac
exit $failed
