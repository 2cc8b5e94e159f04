#!/usr/bin/env bash
# Runs all test programs with eight busy loops next to them: no test may depend on an idle machine.
# loaded_tests.sh [ROUNDS [CARGO_ARGUMENTS...]]: three rounds of the workspace, or of `-p CRATE...`. Builds first, without
# the loops. Prints each program's time and the tests that failed; all that they said is in the log, which it names at
# the end. Fails if a test fails, a program ends by a signal, or one takes longer than 30 minutes.
# LOOPS: number of busy loops. JOBS: programs at once. ONLY: a pattern; programs whose paths don't match are not run.
set -uo pipefail
cd "$(dirname "$0")/.."

rounds=${1:-3}
[[ $rounds =~ ^[1-9][0-9]*$ ]] || { echo "rounds: must be a number from 1, got \"$rounds\"" >&2; exit 2; }
[ $# -gt 0 ] && shift
packages=("$@")
[ $# -gt 0 ] || packages=(--workspace)
loops=${LOOPS:-8} jobs=${JOBS:-4}
[[ $jobs =~ ^[1-9][0-9]*$ ]] || { echo "JOBS: must be a number from 1, got \"$jobs\"" >&2; exit 2; }
log=${CARGO_TARGET_DIR:-target}/loaded-tests.log times=${log%.log}-times.txt
busy=() failed=()

quiet() {
    [ ${#busy[@]} = 0 ] || kill "${busy[@]}" 2>/dev/null
    busy=()
}
trap quiet EXIT
trap 'exit 130' INT TERM HUP
export LD_LIBRARY_PATH=$(rustc --print target-libdir)${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}

# Folder of its crate, and path, of each test program.
programs() {
    cargo test "${packages[@]}" --no-run --message-format=json | python3 -c '
import json, os, sys
for line in sys.stdin:
    message = json.loads(line)
    if message["reason"] == "compiler-artifact" and message["profile"]["test"] and message["executable"]:
        print(os.path.dirname(message["manifest_path"]), message["executable"], sep="\t")
'
}

list=$(programs) || { echo "the tests don't compile" >&2; exit 1; }
list=$(grep -E -- "${ONLY:-.}" <<<"$list" | sort -u)
[ -n "$list" ] || { echo "no test program" >&2; exit 1; }
for ((at = 0; at < loops; at++)); do
    (trap - EXIT; while kill -0 $$ 2>/dev/null; do :; done) & # ends with this script, also if that is killed
    busy+=($!)
done

: >"$log"
said=$(mktemp -d)
trap 'quiet; rm -rf "$said"' EXIT

# Runs a program; leaves what it said, its exit status and its time.
run() { # NUMBER FOLDER PROGRAM
    local begun=$SECONDS code
    # As cargo does it: the crate's folder is the working directory, and libraries are found.
    (cd "$2" && CARGO_MANIFEST_DIR=$2 timeout --kill-after=10 1800 "$3") >"$said/$1" 2>&1 </dev/null
    code=$?
    echo "$code $((SECONDS - begun))" >"$said/$1.end"
}

# Orders programs by the times of the last round, so that none of the long ones is left alone at the end.
longest_first() {
    touch "$times"
    awk -F '\t' 'FILENAME != "-" { time[$2] = $1; next } { key = $2; sub(/-[^-]*$/, "", key); print time[key] + 0 "\t" $0 }' \
        "$times" - | sort -rn | cut -f 2-
}

# Prints a program's time and its failures, and keeps what it said.
report() { # ROUND NUMBER FOLDER PROGRAM
    local name code seconds tests test
    name=$(basename "$3")/$(basename "$4" | sed 's/-[0-9a-f]*$//')
    read -r code seconds <"$said/$2.end"
    { echo "== round $1: $name"; cat "$said/$2"; } >>"$log"
    printf '%5d s  %s\n' "$seconds" "$name"
    printf '%d\t%s\n' "$seconds" "${4%-*}" >>"$said/times"
    [ "$code" = 0 ] && return
    tests=$(sed -n 's/^test \(.*\) \.\.\. FAILED$/\1/p' "$said/$2")
    [ -n "$tests" ] || tests="(ended with $code)"
    while read -r test; do
        failed+=("round $1: $name: $test")
        echo "FAILED   ${failed[-1]}"
    done <<<"$tests"
}

for ((round = 1; round <= rounds; round++)); do
    list=$(longest_first <<<"$list")
    echo "round $round of $rounds, $loops busy loops, $jobs programs at once, $(nproc) processors"
    begun=$SECONDS number=0
    while IFS=$'\t' read -r folder program; do
        # Busy loops are jobs of this shell as well.
        while [ "$(jobs -rp | wc -l)" -ge $((loops + jobs)) ]; do wait -n; done
        number=$((number + 1))
        run $number "$folder" "$program" &
    done <<<"$list"
    while [ "$(jobs -rp | wc -l)" -gt "$loops" ]; do wait -n; done
    number=0
    while IFS=$'\t' read -r folder program; do
        number=$((number + 1))
        report "$round" $number "$folder" "$program"
    done <<<"$list"
    mv "$said/times" "$times"
    printf '%5d s  round %d\n' $((SECONDS - begun)) "$round"
done
quiet

echo "$(grep -c '^test .* ok$' "$log") tests passed, ${#failed[@]} failed: $log"
[ ${#failed[@]} = 0 ] && exit 0
printf 'FAILED: %s\n' "${failed[@]}"
exit 1
