#!/usr/bin/env bash
# Runs all that an NVIDIA GPU must show, with what gpu_build.sh built: one line for each step, pass or fail.
#
#     tools/gpu_check.sh [-b FOLDER] [-o RESULTS] [-m MINUTES] [PART...]
#     tools/gpu_check.sh --list
#
#   -b FOLDER    the executables (default: target/gpu)
#   -o RESULTS   where gpu_check.tar.gz goes: summary.txt and each step's log (default: gpu_results)
#   -m MINUTES   no step begins after this long (default: 8); call again, it goes on where it stopped
#   PART         parts or single steps, in this order of worth; without one, all
#
# Exit codes: 0 all passed, 1 one failed, 2 the command line is wrong, 3 some wait for the next call.
# The machine needs bash, tar and python3; steps whose tool is missing say so. A step that has passed with the same
# build is not run again while RESULTS holds the archive.
set -uo pipefail
top=$(cd "$(dirname "$0")/.." && pwd)

# PART      STEP          SECONDS
steps='
core        conformance   240
core        few           150
core        padded        120
core        gates         120
core        starvation    60
core        lost          60
core        abandoned      60
core        abandoned_full 90
core        foreign       60
core        modules       60
core        capi          60
core        cudareef      60
networks    networks      300
networks    tensors       400
sanitizers  memcheck      150
sanitizers  racecheck     150
sanitizers  synccheck     150
churn       churn         240
churn       hung          120
preempt     preempt       240
preempt     preempt_gates 120
pair        pair          240
cluster     cluster       240
guests      checkpoint    500
guests      warm          400
speed       speed         400
questions   colocate      240
'

# --- Steps: each writes to its log and returns whether it passed -----------------------------------------------

suite() { # CYCLES FILTER ARGS...
    local cycles=$1
    shift
    REEF_CONFORMANCE_CYCLES=${REEF_CONFORMANCE_CYCLES:-$cycles} "$build/conformance" "$@"
}

# One case compares times, so it runs alone: next to three others its preemption came when its kernels had ended
# (docs/lab/nvidia.md, "Not explained"; the step `colocate` is about that).
conformance() {
    suite 10000 cuda:: --test-threads=4 --skip as_deep && suite 10000 cuda::a_preemption_is_as_deep --test-threads=1
}
# Queues that are capped at few blocks.
few() { suite 3000 cuda_few:: --test-threads=4 --skip as_deep; }
# Each real-time kernel padded.
padded() { suite 1000 cuda_padded:: --test-threads=1; }
# One at a time: a driver call that waits for the whole device opens the gates of others.
gates() { suite 1000 cuda_gates:: --test-threads=1; }
lost() { "$build/lost" --nocapture; }
abandoned() { "$build/abandoned" --nocapture; }
# The device is busy for half a minute after it.
abandoned_full() { "$build/abandoned_full" --nocapture; }
foreign() { "$build/gates" --nocapture; }
modules() { "$build/modules" --nocapture; }
# The C example gives the same class on both devices, and a program of REEF's CUDA port preempts a stream.
capi() {
    local device
    for device in cpu:0 'cuda:0?precision=fp32'; do "$build/infer" "$device" resnet18 || return; done | tee "$work/capi.txt"
    [ "$(wc -l <"$work/capi.txt")" = 2 ] && [ "$(sort -u "$work/capi.txt" | wc -l)" = 1 ]
}
cudareef() { CUDA_MODULE_LOADING=EAGER "$build/port"; }
networks() { "$build/networks" cuda:: --nocapture --test-threads=2; }

# Ordinary tensors: ONNX's own node tests, each preempted at random as well, and networks of text next to plain loops.
tensors() {
    local code=0 folder least network version
    for version in 1.17.0 1.23.2; do
        folder=$work/cache/onnx-$version
        least=$([ "$version" = 1.17.0 ] && echo 1000 || echo 1150)
        mkdir -p "$folder" && tar -xzf "$build/onnx_nodes-$version.tar.gz" -C "$folder" || return
        "$build/reef" model verify --against onnx-tests "$folder/node" --device 'cuda:0?precision=fp32' --preempt --min-passed "$least" \
            --report "$work/onnx-nodes-$version.md" || code=1
        echo "note: $version: $(grep -m1 passed "$work/onnx-nodes-$version.md")"
    done
    for network in distilbert bert; do
        "$build/reef" model verify "$network" --size 16 --device 'cuda:0?precision=fp32' --preempt || code=1
        # Both sides of each product are rounded to 11 bits, layer after layer.
        for precision in tf32 fp16; do
            "$build/reef" model verify "$network" --size 128 --device "cuda:0?precision=$precision" --preempt \
                --tolerance 2e-2 || code=1
        done
    done
    return $code
}

sanitizer() { # TOOL ARGS...
    local tool=$1
    shift
    command -v compute-sanitizer >/dev/null || { echo "no compute-sanitizer on this machine"; return 1; }
    # Functions are asked for parameters until they have none, which is no error of ours.
    REEF_CONFORMANCE_CYCLES=40 compute-sanitizer --tool "$tool" --report-api-errors no --error-exitcode 9 \
        "$build/conformance" cuda:: --test-threads=1 "$@"
}
memcheck() { sanitizer memcheck; }
# Without three cases that compare times, which mean nothing under this tool: memcheck and synccheck run them.
racecheck() {
    sanitizer racecheck --skip longer_than_the_real_time --skip as_deep_as --skip next_to_faster
}
synccheck() { sanitizer synccheck; }

# Kernels of 10 ms next to a real-time kernel every millisecond: stopped twice, then they run through.
starvation() {
    local out=$work/starvation.json
    "$build/reef" bench start --device cuda:0 --window 2 --queued 1 --time 2s --pause 1ms --blocks 10ms \
        --be-model none --schedulers All,streams --json >"$out" || return
    python3 - "$out" <<'EOF'
import json, sys
rows = {row["scheduler"]: row for row in json.load(open(sys.argv[1]))["rows"]}
for name, row in rows.items():
    print(f'note: {name}: {row["be_tasks"]} best-effort kernels')
stopped, free = rows["All"], rows["streams"]
assert stopped["preemptions"] > 0, "nothing was preempted"
assert stopped["be_right"] and free["be_right"], "best-effort work is wrong"
assert stopped["be_tasks"] * 4 >= free["be_tasks"], "best-effort work starves"
EOF
}

# Real-time tails while 50 best-effort clients a second come and go: three runs of 16 s, each next to a calm one.
churn() {
    local out=$work/churn.json
    "$build/reef" bench churn --device cuda:0 --json >"$out" || return
    python3 - "$out" <<'EOF'
import json, sys
rows = json.load(open(sys.argv[1]))["rows"]
for row in rows:
    print(f'{row["clients_do"]}: p99 {row["rt_p99_ms"]:.3f} ms')
over = [row["rt_p99_over_calm"] for row in rows if row["rt_p99_over_calm"] is not None]
mean = sum(over) / len(over)
print(f"note: p99 is {mean:.2f} times the calm one, in the mean of {len(over)}")
assert mean <= 1.1, "clients that come and go cost real-time work too much"
EOF
}

# A best-effort kernel that doesn't end, three other best-effort clients and a real-time one: the others go on within
# a millisecond of real-time work, as fast as without it.
hung() {
    local out=$work/hung.json
    "$build/reef" bench hung --device cuda:0 --json >"$out" || return
    python3 - "$out" <<'EOF'
import json, sys
rows = json.load(open(sys.argv[1]))["rows"]
for row in rows:
    print(f'{row["neighbour"]}: {row["be_tasks_per_s"]:.0f} tasks/s, resume p50 {row["resume_p50_us"]:.0f} '
          f'p99 {row["resume_p99_us"]:.0f} max {row["resume_max_us"]:.0f} µs, RT p99 {row["rt_p99_us"]:.0f} µs, '
          f'error after {row["error_after_ms"]} ms')
hung = [row for row in rows if row["neighbour"] == "hung"]
assert min(row["be_over_alone"] for row in hung) >= 0.9, "a hung kernel costs the other clients"
assert max(row["resume_p99_us"] for row in hung) <= 1000, "others resume late"
assert all(3000 <= row["error_after_ms"] <= 4000 for row in hung), "its client is told at the wrong time"
EOF
}

# Two GPUs together next to the first one alone. A machine with one GPU has nothing to show here.
cluster() {
    local out=$work/cluster.json
    [ "$(nvidia-smi -L | grep -c ^GPU)" -gt 1 ] || { echo "note: one GPU, nothing measured"; return 0; }
    "$build/reef" bench cluster --device cuda:0,cuda:1 --json >"$out" || return
    python3 - "$out" <<'EOF'
import json, sys
rows = [row for row in json.load(open(sys.argv[1]))["rows"] if row["devices"] == 2]
def median(name):
    return sorted(row[name] for row in rows)[len(rows) // 2]
throughput, p99 = median("be_alone_over_one"), median("rt_p99_over_one")
print(f"note: throughput {throughput:.3f}, p99 {p99:.3f} times one device's, the medians of {len(rows)}")
assert throughput >= 1.95, "two devices do less than 1.95 times what one does"
assert p99 <= 1.1, "real-time requests are later than on one device"
EOF
}

# A training script in a folder and back, by itself, as a guest, limited and swappable: the same digest. CRIU 4 is
# needed, which tools/criu_build.sh builds, and a machine that allows ptrace.
checkpoint() {
    python3 -c 'import torch' 2>/dev/null || { echo "note: skipped: no torch on this machine"; return 0; }
    python3 "$top/tools/interpose/checkpoint.py" "$build" \
        "train=python3 $top/tools/interpose/deterministic.py train 2500 2" | sed 's/^skipped: /note: &/'
}

# A model of 4 GiB: the time of its own start, and of those from the folder that the daemon has written of its process. It
# needs what `checkpoint` needs.
warm() {
    python3 -c 'import torch' 2>/dev/null || { echo "note: skipped: no torch on this machine"; return 0; }
    python3 "$top/tools/engines/warm_start.py" "$build" | sed 's/^skipped: /note: &/'
}

preempt() {
    "$build/reef" bench start --device cuda:0 --window 2 --queued 1,64 --time 3s --out "$work/preempt"
}

preempt_gates() { # kernels without guards
    for gates in 1 4; do
        "$build/reef" bench start --device "cuda:0?gates=$gates" --window 2 --queued 1,64 --time 3s \
            --schedulers DeviceQueue --out "$work/preempt-gates$gates" || return
    done
}

pair() {
    local options="--window 2 --time 4s --closed"
    "$build/reef" bench colocate --device cuda:0 $options --out "$work/pair" || return
    for split in 32 64; do # green contexts
        "$build/reef" bench colocate --device "cuda:0?split=$split" $options --schedulers stream-priority \
            --out "$work/pair-split$split" || return
    done
}

# Ours and its peer take turns, so that the clocks of the GPU are the same for both; the same networks.
speed() {
    local networks='resnet18 resnet50 resnet152 densenet121 densenet201 inception_v3 vgg19 alexnet mobilenet_v3_large'
    for turn in 1 2; do
        for precision in tf32 fp16; do
            # shellcheck disable=SC2086 # a word each
            "$build/reef" bench networks $networks --device "cuda:0?precision=$precision" --time 1s \
                --out "$work/$precision-$turn" || return
        done
        REEF_CACHE="$work/cache" "$build/reef" bench networks --device "cuda:0?tune=on" \
            --time 1.5s --out "$work/tuned-$turn" || return
        if python3 -c 'import torch, torchvision' 2>/dev/null; then
            python3 "$top/tools/cudnn.py" 1.5 --builds fused | tee "$work/cudnn-$turn.txt" || return
        else
            echo "skipped: the peer: no torch and torchvision on this machine"
        fi
    done
}

# What "Not explained" in docs/lab/nvidia.md asks: how a preemption at the deepest level went, alone and next to three
# other cases, with as many connections to the device. Passes if each run has said what it saw.
colocate() {
    local connections alone others
    for connections in 1 8 32; do
        export CUDA_DEVICE_MAX_CONNECTIONS=$connections
        alone=$(stopped_at_all 1 cuda::a_preemption_is_as_deep) && others=$(stopped_at_all 4 cuda::) || return
        echo "note: $connections connections: alone $alone; next to others $others"
    done
}
stopped_at_all() { # THREADS FILTER
    suite 3000 "$2" --test-threads="$1" --nocapture >"$work/colocate.txt" 2>&1
    grep -m1 -oE '[0-9]+ when the calls to stop returned after .*, level All' "$work/colocate.txt"
}

# --- The run -----------------------------------------------------------------------------------------------

build=$top/target/gpu results=$top/gpu_results minutes=8
while [ $# -gt 0 ]; do
    case $1 in
    -b) build=$(realpath "$2"); shift 2 ;;
    -o) results=$2; shift 2 ;;
    -m) minutes=$2; shift 2 ;;
    --list) printf '%s' "$steps" | sed 1d; exit ;;
    -*) sed -n '2,15s/^# \{0,1\}//p' "$0"; exit 2 ;;
    *) break ;;
    esac
done
for name in "$@"; do
    grep -qw -- "$name" <<<"$steps" || { echo "no part or step $name; see --list" >&2; exit 2; }
done
[[ $minutes =~ ^[0-9]+$ ]] || { echo "-m $minutes: not a number of whole minutes" >&2; exit 2; }
mkdir -p "$results"
results=$(realpath "$results")
commit=$(cat "$build/commit") || exit 2
export REEF_CONFORMANCE_REQUIRE=1 # a missing device is a failure here
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
[ -f "$results/gpu_check.tar.gz" ] && tar -C "$work" -xzf "$results/gpu_check.tar.gz"

# Keeps the archive whole after each step, so that a machine that goes away takes one step with it.
save() {
    {
        echo "build $commit, $(date -u +%F), $(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader | head -1)"
        while read -r _ step _; do cut -f1-4 "$work/$step.result" 2>/dev/null; done <<<"$steps"
    } >"$work/summary.txt" 2>/dev/null
    cp "$work/summary.txt" "$results/"
    tar -C "$work" --exclude=./cache -czf "$results/gpu_check.tar.gz.new" . &&
        mv "$results/gpu_check.tar.gz.new" "$results/gpu_check.tar.gz"
}

# What a step's log says about itself, in a few words.
note() {
    local log=$1
    grep -hE '^test result|ERROR SUMMARY|RACECHECK SUMMARY|^skipped: [0-9]+ in all|^note: ' "$log" | tail -4 |
        sed 's/^note: //' | tr '\n' ' '
    [ "$2" = 0 ] || grep -hE 'panicked|Error|error|assert|no ' -A1 "$log" | tail -2 | tr '\n' ' '
}

run() { # STEP SECONDS LEFT
    local step=$1 limit=$(($2 < $3 ? $2 : $3)) begin=$SECONDS code word
    export build work top
    timeout -k 10 "$limit" bash -c "$(declare -f); set -uo pipefail; $step" >"$work/$step.log" 2>&1
    code=$?
    word=pass
    [ $code = 0 ] || word=FAIL
    [ $code = 124 ] && echo "error: longer than $limit s" >>"$work/$step.log"
    [ $code = 124 ] && [ "$limit" -lt "$2" ] && word=later # there was no time left for it
    printf '%s\t%s\t%s\t%s s: %s\n' "$word" "$commit" "$step" $((SECONDS - begin)) \
        "$(note "$work/$step.log" $code)" >"$work/$step.result"
    cut -f1,3,4 "$work/$step.result"
    save
    case $word in FAIL) failed=1 ;; later) waiting=1 ;; esac
}

failed=0 waiting=0
while read -r part step limit; do
    [ -n "$part" ] || continue
    if [ $# -gt 0 ] && [[ " $* " != *" $part "* && " $* " != *" $step "* ]]; then continue; fi
    if grep -qsP "^pass\t\Q$commit\E\t" "$work/$step.result"; then
        echo "pass	$step	before"
        continue
    fi
    left=$((minutes * 60 - SECONDS))
    if [ $left -lt 10 ]; then
        echo "later	$step"
        waiting=1
        continue
    fi
    run "$step" "$limit" $left
done <<<"$steps"
[ $failed = 0 ] || exit 1
[ $waiting = 0 ] || exit 3
