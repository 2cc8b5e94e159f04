#!/usr/bin/env bash
# Limits on an NVIDIA GPU: what may not be there at once, what must go on, and shares of the time. Nothing else may use the first GPU.
#   tools/limits/run.sh FOLDER    FOLDER has `reef` and libreef_cuda_shim.so; nvcc has to be in the PATH, PyTorch is optional
# The exit code is the number of cases that aren't right.
set -u
bin=$(realpath "${1:?FOLDER with reef and libreef_cuda_shim.so}")
here=$(dirname "$(realpath "$0")")
out=${OUT:-$(mktemp -d)}
wrong=0
for program in together attempts; do
    nvcc -std=c++17 -O1 -arch native -o "$out/$program" "$here/$program.cu" -lcuda || exit 100
done
program=together
# Without daemons: one of this user with the same accounts charges each program with its context, some 500 MiB.
REEF_ACCOUNTS=$(mktemp -d)
export REEF_ACCOUNTS
limited() { # SIZE PROGRAM...
    local size=$1
    shift
    timeout "${LIMIT:-120}" "$bin/reef" exec --socket-dir "$out" --memory "$size" --shim "$bin/libreef_cuda_shim.so" -- "$@"
}
# CASE, at least and at most MiB that it holds, and whether it is refused. The device may have 1,024 MiB more, and 64 of code, or
# as many as are named last.
case_of() {
    local name=$1 least=$2 most=$3 code=$4 device=${5:-1088} line
    line=$(limited 1GiB "$out/$program" "$name" 2>"$out/$name.err" | tail -n 1)
    echo "${line:-$name: nothing said}"
    if ! [[ $line =~ held\ ([0-9]+)\ MiB,\ code\ ([0-9]+),\ device\ \+(-?[0-9]+) ]]; then
        cat "$out/$name.err"
    elif ((BASH_REMATCH[1] >= least && BASH_REMATCH[1] <= most && BASH_REMATCH[2] == code && BASH_REMATCH[3] <= device)); then
        return
    fi
    echo "    WRONG: from $least to $most MiB and code $code are right, with at most $device MiB more on the device"
    wrong=$((wrong + 1))
}
nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader
case_of graphs-again 400 800 2
case_of graphs-uploaded 400 800 2
case_of graph-updated 64 64 2
case_of child-updated 64 64 2
case_of graphs-in-turn 600 600 0
case_of graphs-at-once 800 800 0
case_of fragments 200 424 2
case_of refilled 900 1024 0
case_of refilled-trimmed 900 1024 0
case_of kept-apart 200 456 0
case_of taken-over 900 1024 2
case_of frees-behind-waits 700 700 2
case_of frees-reached-soon 700 700 0
case_of reused 700 700 0
case_of exports-closed 16384 16384 0
case_of exports-open 768 1024 2
case_of imported 960 1024 2
case_of graphs-overwritten 0 1024 2
case_of captures 0 0 0
case_of pageable 0 0 1
program=attempts
case_of constants 256 1024 2
case_of aligned 0 1024 2
case_of quoted 0 1024 2
case_of rows 0 1024 2
case_of commented 0 1024 2
case_of packed 0 1024 2
case_of textures 0 1024 2
case_of volumes 0 1024 2
case_of library-in-green 600 600 2 2300 # two contexts that are not charged
case_of library-early 600 600 2 1700
case_of heap-in-green 0 600 2 1700
case_of contexts-at-once 0 0 2 2600 # a context takes some 500 MiB; its limits, which are charged, 280
case_of overwritten 896 1024 2
case_of mapped-at-once 832 1024 2
case_of range-of-pool 0 1024 2
case_of conditional-body 0 1024 2
case_of registered 0 0 2
# CASE, and the code that ends it. Without one, the program has a quarter of the time, as far as a few seconds can tell.
share_of() {
    local name=$1 code=$2 line
    line=$(timeout 120 "$bin/reef" exec --socket-dir "$out" --compute 25% --shim "$bin/libreef_cuda_shim.so" -- "$out/attempts" "$name" 8 2>"$out/$name.err" | tail -n 1)
    echo "${line:-$name: nothing said}"
    if [[ $line =~ :\ ([0-9]+)\ ms\ a\ second,\ code\ ([0-9]+) ]]; then
        if ((BASH_REMATCH[2] == code && (code != 0 || (BASH_REMATCH[1] >= 150 && BASH_REMATCH[1] <= 330)))); then
            return
        fi
    else
        cat "$out/$name.err"
    fi
    echo "    WRONG: code $code is right, and from 150 to 330 ms a second without one"
    wrong=$((wrong + 1))
}
share_of plain 0
share_of streams 0
share_of capture-open 0
share_of long 0
share_of no-files 800
if python3 -c 'import torch' 2>/dev/null; then
    for name in native async segments; do
        LIMIT=300 limited 6GiB python3 "$here/goes_on.py" "$name" 2>"$out/$name.err" || {
            echo "    WRONG: $name"
            tail -n 5 "$out/$name.err"
            wrong=$((wrong + 1))
        }
    done
fi
echo "$wrong wrong"
exit "$wrong"
