#!/usr/bin/env bash
# Prints a table of attacks on a daemon by one hostile process: the 99th percentile of a paced local real-time client
# calm and under attack, the longest answer about its health, what others lost, the daemon's memory, and whether all
# of it is within what is allowed. The attacks are in crates/reef-serve/tests/processes/hostile/attacks.rs.
#
#     tools/hostile.sh [-b FOLDER] [-o RESULTS] [-s SECONDS] [-m MINUTES] [ATTACK...]
#     tools/hostile.sh --list
#
#   -b FOLDER    what serve_build.sh built: needs neither Rust nor a network (default: cargo builds it here, profile dev)
#   -o RESULTS   where hostile.md goes (default: target/hostile_results); rows that it has are not measured again
#   -s SECONDS   calm, and again under attack (default: 5)
#   -m MINUTES   no attack begins after this long (default: 60); call again, it goes on where it stopped
#   ATTACK       numbers or names (6, "long JSON"); without one, all
#
# With eight cores or more the hostile process has four of its own, and daemon and clients the others.
# Exit codes: 0 all within, 1 one beyond, 2 the command line is wrong, 3 some wait for the next call.
set -euo pipefail
cd "$(dirname "$0")/.."

build='' results=target/hostile_results seconds=5 minutes=60 list=''
while [ $# -gt 0 ]; do
    case $1 in
    -b) build=$2; shift 2 ;;
    -o) results=$2; shift 2 ;;
    -s) seconds=$2; shift 2 ;;
    -m) minutes=$2; shift 2 ;;
    --list) list=yes; shift ;;
    -*) sed -n '2,18s/^# \{0,1\}//p' "$0"; exit 2 ;;
    *) break ;;
    esac
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [ -n "$build" ]; then
    commit=$(cat "$build/commit") || exit 2
    chmod 755 "$work" && cp "$build/processes" "$work/" # another user must be able to run it
    play() { "$work/processes" --ignored --exact "$1" --nocapture; }
else
    commit="$(git describe --always --dirty), profile dev"
    cargo test -q -p reef-serve --test processes --no-run
    play() { cargo test -q -p reef-serve --test processes -- --ignored --exact "$1" --nocapture; }
fi

play hostile::names | sed -n 's/^attack //p' >"$work/names"
[ -z "$list" ] || { cat "$work/names"; exit; }
wanted() { # NUMBER NAME ARGUMENTS...
    local number=$1 name=$2
    shift 2
    [ $# -gt 0 ] || return 0
    for one in "$@"; do [ "$one" != "$number" ] && [ "$one" != "$name" ] || return 0; done
    return 1
}
for one in "$@"; do
    cut -d' ' -f1 "$work/names" | grep -qxF -- "$one" || cut -d' ' -f2- "$work/names" | grep -qxF -- "$one" ||
        { echo "no attack $one; see --list" >&2; exit 2; }
done

table=$results/hostile.md
head="build $commit; $seconds s"
mkdir -p "$results"
[ -f "$table" ] || echo "$head" >"$table"
[ "$(head -1 "$table")" = "$head" ] ||
    { echo "$table is of $(head -1 "$table"), asked was $head: name another folder" >&2; exit 2; }
cat "$table"

waiting=0
while read -r number name; do
    wanted "$number" "$name" "$@" || continue
    grep -qF -- "| $number $name |" "$table" && continue
    [ $SECONDS -lt $((minutes * 60)) ] || { echo "later: $number $name"; waiting=1; continue; }
    REEF_HOSTILE_SECONDS=$seconds REEF_HOSTILE_ONLY=$name play hostile::hostile </dev/null \
        >"$work/log" 2>"$work/errors" ||
        { echo "$number $name: it ended before its time"; tail -5 "$work/log" "$work/errors"; exit 1; }
    # The machine and the columns, once.
    grep -q '^| attack' "$table" || sed -n '/ processors, /,/^|---/p' "$work/log" | tee -a "$table"
    grep -- "^| $number $name |" "$work/log" | tee -a "$table"
done <"$work/names"
[ $waiting = 0 ] || exit 3
! grep -q '| no |$' "$table"
