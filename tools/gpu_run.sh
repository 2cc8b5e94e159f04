#!/usr/bin/env bash
# Runs what needs an NVIDIA GPU, with what gpu_build.sh built: gpu_run.sh FOLDER RESULTS tests|bench|all.
# About four minutes of tests and eight of benches on an H200.
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

if [ "$what" != bench ]; then
    run lost 60 "$folder/lost" --nocapture
    run modules 60 "$folder/modules"
    REEF_CONFORMANCE_CYCLES=${REEF_CONFORMANCE_CYCLES:-100000} \
        run conformance 200 "$folder/conformance" cuda:: --test-threads=4
    run networks 200 "$folder/networks" cuda:: --nocapture --test-threads=2
    for tool in memcheck racecheck; do
        # Functions are asked for parameters until they have none, which is no error of ours.
        REEF_CONFORMANCE_CYCLES=40 run $tool 100 compute-sanitizer --tool $tool --report-api-errors no \
            "$folder/conformance" cuda:: --test-threads=1
    done
fi

if [ "$what" != tests ]; then
    "$folder/reef" bench preempt --device cuda:0 --queued 1,16,64 --seconds 3 --out "$results" 2>/dev/null
    "$folder/reef" bench pair --device cuda:0 --closed --window 2 --seconds 4 --out "$results" 2>/dev/null
    for split in 32 64; do
        "$folder/reef" bench pair --device "cuda:0?split=$split" --only stream-priority --window 2 --seconds 4 \
            --out "$results/split$split" 2>/dev/null
    done
fi
exit $failed
