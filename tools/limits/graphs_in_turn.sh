#!/usr/bin/env bash
# Why a graph that fits the limit is refused next to busy processors: the driver's numbers of graphs' memory, and each refusal.
#   tools/limits/graphs_in_turn.sh FOLDER    FOLDER has `reef` and libreef_cuda_shim.so; nvcc has to be in the PATH
# LOOPS is the number of busy loops (two for each processor), TIMES how often the case is run next to them (10). Less than a minute.
# The exit code is the number of runs with a refusal.
set -u
bin=$(realpath "${1:?FOLDER with reef and libreef_cuda_shim.so}")
here=$(dirname "$(realpath "$0")")
out=${OUT:-$(mktemp -d)}
for program in graphs_in_turn together; do
    nvcc -std=c++17 -O1 -arch native -o "$out/$program" "$here/$program.cu" -lcuda || exit 100
done
loops=()
trap '((${#loops[@]} == 0)) || kill "${loops[@]}" 2>/dev/null' EXIT
wrong=0
limited() { # PROGRAM...: prints the program's lines, and those of the library's report
    timeout 60 "$bin/reef" exec --memory 1GiB --explain --shim "$bin/libreef_cuda_shim.so" -- "$@" 2>"$out/said"
    grep -E '^ +device|refused graph' "$out/said"
}
turn() { # NUMBER
    limited "$out/graphs_in_turn" limited >"$out/turn"
    if grep -q '^limited: 0 refused' "$out/turn"; then
        echo "run $1: $(grep '^limited:' "$out/turn")"
    else
        echo "run $1:"
        cat "$out/turn"
        grep -q '^limited:' "$out/turn" || cat "$out/said"
        wrong=$((wrong + 1))
    fi
}
# Memory of an exporter that ends, next to and after other programs: what is charged to the importer.
imported() {
    limited "$out/together" exports-open
    limited "$out/together" imported
}
# Others on the GPU: a daemon of this user charges each program with its context, some 500 MiB; other programs take memory.
nvidia-smi --query-gpu=name,driver_version,memory.used,memory.total --format=csv,noheader
nvidia-smi --query-compute-apps=pid,used_memory --format=csv,noheader | sed 's/^/another program: /'
lock=${REEF_ACCOUNTS:-/dev/shm/reef-$(id -u)}/daemon.lock
if [ -e "$lock" ] && ! flock -n "$lock" true; then
    echo "a daemon charges contexts: $lock"
fi
echo "idle:"
"$out/graphs_in_turn" driver
turn 0
for ((i = 0; i < ${LOOPS:-2 * $(nproc)}; i++)); do
    (while :; do :; done) &
    loops+=($!)
done
echo "next to ${#loops[@]} busy loops:"
"$out/graphs_in_turn" driver
for ((i = 1; i <= ${TIMES:-10}; i++)); do
    turn "$i"
done
imported
echo "$wrong wrong"
exit "$wrong"
