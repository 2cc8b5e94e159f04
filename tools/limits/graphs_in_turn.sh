#!/usr/bin/env bash
# Why a graph that fits the limit is refused next to busy processors: the driver's numbers of graphs' memory, and each refusal.
#   tools/limits/graphs_in_turn.sh FOLDER    FOLDER has `reef` and libreef_cuda_shim.so; nvcc has to be in the PATH
# LOOPS is the number of busy loops (two for each processor), TIMES how often the case is run next to them (10). About a minute.
# Last with a daemon, which charges each program with its context, some 500 MiB: then a refusal is right.
# The exit code is the number of runs with a refusal.
set -u
bin=$(realpath "${1:?FOLDER with reef and libreef_cuda_shim.so}")
here=$(dirname "$(realpath "$0")")
out=${OUT:-$(mktemp -d)}
REEF_ACCOUNTS=$(mktemp -d)
export REEF_ACCOUNTS
for program in graphs_in_turn together; do
    nvcc -std=c++17 -O1 -arch native -o "$out/$program" "$here/$program.cu" -lcuda || exit 100
done
started=()
trap '((${#started[@]} == 0)) || kill "${started[@]}" 2>/dev/null' EXIT
wrong=0
limited() { # PROGRAM...: prints the program's lines, and those of the library's report
    timeout 60 "$bin/reef" exec --socket-dir "$out" --memory 1GiB --explain --shim "$bin/libreef_cuda_shim.so" -- "$@" 2>"$out/said"
    grep -E '^ +device|refused graph' "$out/said"
}
turn() { # NUMBER CASE
    limited "$out/graphs_in_turn" "$2" >"$out/turn"
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
nvidia-smi --query-gpu=name,driver_version,memory.used,memory.total --format=csv,noheader
nvidia-smi --query-compute-apps=pid,used_memory --format=csv,noheader | sed 's/^/another program: /'
echo "idle:"
"$out/graphs_in_turn" driver
turn 0 limited
for ((i = 0; i < ${LOOPS:-2 * $(nproc)}; i++)); do
    (while :; do :; done) &
    started+=($!)
done
echo "next to ${#started[@]} busy loops:"
"$out/graphs_in_turn" driver
for ((i = 1; i <= ${TIMES:-10}; i++)); do
    turn "$i" limited
done
imported
sockets=$(mktemp -d)/s
"$bin/reef" serve --device 'cpu:0?units=1' --socket-dir "$sockets" --guests --set models.builtin=true >/dev/null 2>"$out/daemon" &
started+=($!)
for ((i = 0; i < 100; i++)); do
    [ -S "$sockets/guests.sock" ] && break
    sleep 0.1
done
[ -S "$sockets/guests.sock" ] || cat "$out/daemon"
echo "and with a daemon that charges contexts:"
without=$wrong
turn 1 limited
turn 2 limited
turn 3 waits
wrong=$without
imported
echo "$wrong wrong"
exit "$wrong"
