#!/usr/bin/env bash
# Changes the code of the protocols in small ways, one at a time, and runs its crate's tests against each change:
# one that no test notices is a survivor (docs/mutation.md).
#
#     tools/mutants.sh [SHARD] [FILE...]      such as 0/8; default: 0/1, all of them
#
# A test that takes 25 s never ends: together they take 2. Loom's models are not changed: unit tests don't run them.
# Takes hours in all, so CI doesn't run it. What was found lies in target/mutants/SHARD/mutants.out.
set -euo pipefail
cd "$(dirname "$0")/.."
shard=${1:-0/1}
shift || true
files=("$@")
[ ${#files[@]} -gt 0 ] || files=(
    reef-core/src/sync/{ring,park,combiner}.rs
    reef-core/src/vqueue/{launcher,hold,shared,group,worker}.rs
    reef-core/src/dispatch/queues/rt_queue.rs
    crates/reef-gpu/src/launch/{queue/in_flight,guarded}.rs
    crates/reef-gpu/src/preempt/preemptor.rs
)
command -v cargo-mutants >/dev/null || cargo install --quiet --locked cargo-mutants
out=target/mutants/${shard%/*}-of-${shard#*/}
mkdir -p "$out"
code=0
CARGO_PROFILE_DEV_OPT_LEVEL=0 CARGO_PROFILE_DEV_DEBUG=0 cargo mutants --workspace --jobs 1 --shard "$shard" \
    --sharding round-robin --timeout 25 --output "$out" --no-shuffle --exclude-re models:: --exclude-re tests:: \
    "${files[@]/#/--file=}" -- --lib || code=$?
wc -l "$out"/mutants.out/{caught,missed,timeout,unviable}.txt
[ $code = 2 ] || [ $code = 3 ] && code=0 # survivors and endless loops are results
exit $code
