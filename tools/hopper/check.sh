#!/usr/bin/env bash
# Convolutions and products on warpgroups on a device of capability 9.0: are they right, also when they are stopped, and what do they gain?
#
#     tools/hopper/check.sh REEF FOLDER        (REEF: the command, built with --features cuda)
#
# Takes about two minutes. FOLDER gets a file for each network and bench. PEER=0 leaves PyTorch out.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
reef=$(realpath "$1")
folder=$2
mkdir -p "$folder"
device() { echo "cuda:0?precision=$1&warpgroups=$2"; }

# A driver that refuses their code gets other kernels, without a word: all that follows would say nothing of them. Blocks of these alone
# have 1024 bytes of their own before slabs of 96 or 192 KiB.
failed=0
for precision in tf32 fp16; do
    profile=$folder/profile-$precision.json
    "$reef" model profile vit_b_16 --device "$(device $precision on)" --out "$profile" >/dev/null 2>&1 || exit 1
    echo "$precision: $(grep -oE '"shared":(99328|108544)\b' "$profile" | wc -l) launches of vit_b_16 on warpgroups"
    "$reef" model profile vgg19 --device "$(device $precision on)" --out "$profile" >/dev/null 2>&1 || exit 1
    echo "$precision: $(grep -oE '"shared":(99328|197632)\b' "$profile" | wc -l) convolutions of vgg19 on warpgroups"
    grep -qE '"shared":(99328|197632)\b' "$profile" || { echo "none: the driver refused their code" >&2; exit 1; }
done

# Each network beside plain loops, and again with preemptions at random times, of which no bit may change.
pids=()
for precision in tf32 fp16; do
    for network in vgg19 resnet50 vit_b_16 bert; do
        nice -n 19 "$reef" model verify "$network" --preempt --tolerance 2e-2 --device "$(device $precision on)" \
            >"$folder/verify-$network-$precision.txt" 2>&1 &
        pids+=($!)
    done
done
for pid in "${pids[@]}"; do wait "$pid" || failed=$((failed + 1)); done
tail -n 2 "$folder"/verify-*.txt

# In turns, so that a clock that changes shows.
for round in 1 2; do
    for precision in tf32 fp16; do
        for warpgroups in off on; do
            "$reef" bench networks vgg19 resnet50 vit_b_16 --time 1s --device "$(device $precision $warpgroups)" 2>&1 |
                tee "$folder/bench-$precision-$warpgroups-$round.txt"
        done
    done
done
[ "${PEER:-1}" = 0 ] || python3 "$here/../cudnn.py" 0.7 --builds fused --networks vgg19,resnet50 2>&1 | tee "$folder/peer.txt"
echo "$failed of ${#pids[@]} networks failed"
exit "$failed"
