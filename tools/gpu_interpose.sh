#!/usr/bin/env bash
# Unmodified PyTorch programs under the shim on an NVIDIA GPU: the same output, all launches seen, held and released.
# Nothing is built here. Each program has a time limit; what it says is printed at once and appended to $OUT/output.txt.
#   tools/gpu_interpose.sh [FOLDER]   FOLDER (target/gpu-shim, or target/release) has what tools/interpose/build.sh and
#                                     tools/interpose/programs.sh built; without the latter, nvcc has to be in the PATH
#   STEPS="names same frameworks static seen cost profile pair evade limits mps" chooses; FRAMEWORKS, PROGRAMS and MODES likewise.
#   BUDGET=540                        seconds; what doesn't fit isn't begun, and the end says how to run it
# Fails if a program did, or was not held as it should be.
set -u
cd "$(dirname "$(realpath "$0")")/.."
bin=${1:-$([ -d target/gpu-shim ] && echo target/gpu-shim || echo target/release)}
bin=$(realpath -m "$bin")
here=$PWD/tools/interpose
out=${OUT:-$(mktemp -d)}
mkdir -p "$out"
rm -f "$out/failed"
exec > >(tee -a "$out/output.txt") 2>&1
printer=$!
shim=$bin/libreef_cuda_shim.so
left= mps=
for file in "$shim" "$bin/registry"; do
    [ -s "$file" ] || { echo "no $file: tools/interpose/build.sh makes it"; exit 2; }
done
socket=$(mktemp -d)/guests.sock
chmod +x "$bin"/* 2>/dev/null
registry=

guests() { # [SEED]: a registry, which holds at random with a seed
    stop
    "$bin/registry" "$socket" "$@" >"$out/guests.log" 2>&1 &
    registry=$!
    for _ in 1 2 3 4 5 6 7 8 9 10; do [ -S "$socket" ] && return; sleep 0.1; done
    echo "no registry"
}
stop() {
    [ -z "$registry" ] || { kill "$registry" 2>/dev/null; wait "$registry" 2>/dev/null; tail -n 1 "$out/guests.log" | sed 's/^/    /'; }
    registry=
    rm -f "$socket"
}
end() { # whatever ended it: no process is left behind, and all that was said is in the file
    stop
    [ -z "$mps" ] || echo quit | nvidia-cuda-mps-control >/dev/null 2>&1
    exec >&- 2>&-
    wait "$printer"
}
trap end EXIT
trap 'exit 143' TERM INT
fits() { # SECONDS WHAT...: whether there is time for it; what isn't begun is said at the end
    [ $((SECONDS + $1)) -le "${BUDGET:-540}" ] && return
    shift
    left="$left$*"$'\n'
    return 1
}
fails() { # WHY: also where this is a process of its own
    echo "  failed: $1"
    touch "$out/failed"
}
plain() {
    local run=("python3" "$here/${PROGRAM:-net.py}")
    [ -z "${STATIC:-}" ] || run=("$STATIC")
    timeout -k 5 "${LIMIT:-40}" "${run[@]}" "$@" 2>>"$out/errors" && return
    local code=$? # 77: it can't run here, and has said why
    [ $code = 77 ] || fails "$code: $(tail -n 1 "$out/errors")" # 124: its time was over
}
under() { # CLASS PROGRAM...: under the shim; no class: nothing but the shim
    local class=$1
    shift
    if [ "$class" = none ]; then
        LD_PRELOAD=$shim plain "$@"
    else
        rm -f "$out/report"
        LD_PRELOAD=$shim REEF_GUESTS=$socket REEF_CLASS=$class REEF_EXPLAIN=$out/report plain "$@"
        grep -E "^  guest|not sched|daemon:|looked up|private|in front alone" "$out/report" 2>/dev/null | sort | uniq | sed 's/^/    /'
    fi
}
step() { echo "== $* ($(date +%T), $SECONDS s)"; }
wanted() { [ -z "${STEPS:-}" ] || [[ " $STEPS " == *" $1 "* ]]; }
step "$(date +%F), library of $(cat "$bin/commit" 2>/dev/null || sha256sum "$shim"), steps ${STEPS:-all}"
nvidia-smi --query-gpu=name,driver_version --format=csv,noheader || echo "no nvidia-smi"

wanted names && {
    step names of the driver that we do not export
    driver=$(ldconfig -p | awk '/libcuda.so.1 / { print $NF; exit }')
    driver=${driver:-/usr/local/nvidia/lib64/libcuda.so.1}
    nm -D --defined-only "$driver" | awk '{ print $3 }' | sed 's/@.*//' | grep '^cu[A-Z]' | sort >"$out/theirs"
    nm -D --defined-only "$shim" | awk '{ print $3 }' | grep '^cu[A-Z]' | sort >"$out/ours"
    echo "theirs $(wc -l <"$out/theirs"), of which not ours: $(comm -23 "$out/theirs" "$out/ours" | tr '\n' ' ')"
}
wanted same && for mode in ${MODES:-eager graph train}; do
    fits 60 "STEPS=same MODES=$mode" || continue
    step "$mode: plain, shim, best-effort open, best-effort held at random, real-time"
    plain resnet18 $mode 0 0 100
    under none resnet18 $mode 0 0 100
    guests
    under be resnet18 $mode 0 0 100
    guests 7
    under be resnet18 $mode 0 0 100
    guests
    under rt resnet18 $mode 0 0 100
    stop
done
five() { # LABEL PROGRAM...: a program in each of the five ways, as long as plain works
    step "$1: plain, shim, best-effort open, best-effort held at random, real-time"
    shift
    local said
    said=$(plain "$@")
    echo "$said"
    [[ $said != *failed:* && $said != *skipped* ]] || return
    under none "$@"
    guests
    under be "$@"
    guests 7
    said=$(under be "$@")
    echo "$said"
    # Who is held has launches that waited, or it wasn't held while it launched.
    [ "$(grep -oE 'delayed [0-9]+' <<<"$said" | awk '{ sum += $2 } END { print sum + 0 }')" -ge "${DELAYED:-1}" ] ||
        fails "held at random, and fewer than ${DELAYED:-1} launches were delayed"
    guests
    under rt "$@"
    stop
}
frameworks="cupy numba triton triton-kinds jax cooperative workers workers-spawn compile compile-default expandable malloc-async generate nccl"
wanted frameworks && for what in ${FRAMEWORKS:-$frameworks}; do
    fits 100 "STEPS=frameworks FRAMEWORKS=$what" || continue
    LIMIT=${LIMIT:-90} PROGRAM=frameworks.py five "$what" "$what"
done
wanted static && for what in ${PROGRAMS:-streams events graphs cooperative managed conditional ends}; do
    fits 30 "STEPS=static PROGRAMS=$what" || continue
    program=$bin/static-$what
    if [ ! -x "$program" ]; then
        program=$out/static-$what
        nvcc -O2 -std=c++17 -cudart static -arch native "$here/programs/$what.cu" -o "$program" 2>>"$out/errors" ||
            { echo "static-$what: not built, and nvcc can't"; continue; }
    fi
    STATIC=$program five "static-$what"
done
wanted seen && fits 40 STEPS=seen && for mode in eager graph; do
    step "$mode: launches that CUPTI saw in 20 runs; the counts below have preparation in them too"
    guests
    NET_PROFILE=1 under be resnet18 $mode 0 0 20
    stop
done
wanted cost && for mode in ${MODES:-eager graph}; do
    fits 60 "STEPS=cost MODES=$mode" || continue
    step "$mode: what it costs, closed loop of 3 s"
    plain resnet50 $mode 0 3
    under none resnet50 $mode 0 3
    guests
    under be resnet50 $mode 0 3
    under rt resnet50 $mode 0 3
    stop
done
# A profile of a range, which the program turns on and off every few runs: so plain and recorded runs are neighbours.
wanted profile && fits 75 STEPS=profile && {
    step "profile: torch eager, turns of plain and recorded runs in one process, 40 s"
    LIMIT=90 PROGRAM=recording.py REEF_PROFILE=table,range under none resnet50 40
    tail -n 12 "$out/errors"
    step "profile: the same turns, and none records: what this can tell"
    PROGRAM=recording.py under none resnet50 15
}
pair() { # LABEL SHIM MODE: a real-time network at 100/s and in a closed loop, next to a best-effort one
    # $BE_WITH and $RT_WITH: variables of one side alone
    step "$1: ResNet-50 graph next to ResNet-152 $3${BE_WITH:+, BE $BE_WITH}${RT_WITH:+, RT $RT_WITH}"
    export NET_SPANS=$out/spans
    rm -f "$NET_SPANS"
    [ "$2" = none ] || guests
    {
        [ -z "${BE_WITH:-}" ] || export $BE_WITH
        if [ "$2" = none ]; then plain resnet152 "$3" 0 15; else under be resnet152 "$3" 0 15; fi
    } | sed 's/^/  BE /' &
    local be=$!
    sleep 8
    {
        export NET_CLASS=rt
        [ -z "${RT_WITH:-}" ] || export $RT_WITH
        if [ "$2" = none ]; then plain resnet50 graph 100,0 2; else under rt resnet50 graph 100,0 2; fi
    } | sed 's/^/  RT /'
    wait $be
    stop
}
wanted pair && fits 130 STEPS=pair && {
    step alone
    plain resnet50 graph 100,0 2
    pair "time slices" none graph
    pair "time slices, gates" shim graph
    pair "time slices, gates" shim eager
}
# No daemon: limits are kept without one. Judged by a GPU-bound loop's throughput over the same without a limit; two at
# once are measured in the same ten seconds, while both work. LIMITS="memory alone two" chooses.
both() { # PART WORK PART WORK...: programs with these parts at once; a part of 0: without a limit, and without the shim
    local begin=$(($(date +%s) + 10)) name=0 running=()
    while [ $# -gt 0 ]; do
        local share=$1 work=$2
        shift 2
        name=$((name + 1))
        export ALONE=${alone[$work]}
        if [ "$share" = 0 ]; then
            plain "$work" 10 $begin | sed "s/^/  no limit, $work/" &
        else
            REEF_JOB=$name REEF_COMPUTE=$share% under none "$work" 10 $begin | sed "s/^/  $share %, $work/" &
        fi
        running+=($!)
    done
    wait "${running[@]}"
}
rate() { grep -oE '[0-9]+ a second' <<<"$1" | grep -oE '[0-9]+'; }
declare -A alone
export PROGRAM=limits.py REEF_ACCOUNTS=$out/accounts
limits=${LIMITS:-memory alone two}
wanted evade && fits 60 STEPS=evade && {
    step "ways to hold memory under a limit of 1 GiB (WAYS chooses): what was held, what the accounts say, what NVML says"
    evade=$bin/static-evade
    if [ ! -s "$evade" ]; then
        evade=$out/static-evade
        nvcc -O2 -std=c++17 -cudart static -arch native "$here/programs/evade.cu" -o "$evade" -ldl 2>>"$out/errors"
    fi
    # Each way is a process of its own that ends before the next one begins. Without a word, all of them.
    REEF_ACCOUNTS=$out/evade REEF_MEMORY=1GiB LD_PRELOAD=$shim timeout -k 5 180 "$evade" ${WAYS:-}
}
wanted limits && [[ $limits == *memory* ]] && fits 60 "STEPS=limits LIMITS=memory" && {
    step memory: 4 GiB, and 4 GiB by the allocators of the driver and of expandable segments
    REEF_MEMORY=4GiB under none memory
    PYTORCH_CUDA_ALLOC_CONF=backend:cudaMallocAsync REEF_MEMORY=4GiB under none memory
    PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True REEF_MEMORY=4GiB under none memory
    step memory: two programs of one job, 6 GiB together
    REEF_JOB=two REEF_MEMORY=6GiB under none memory &
    REEF_JOB=two REEF_MEMORY=6GiB under none memory
    wait $!
}
wanted limits && [[ $limits == *alone* || $limits == *two* ]] && fits 30 "STEPS=limits LIMITS='alone two'" && {
    step time: without a limit, products of matrices and copies of memory
    for work in product copy; do
        said=$(plain $work 5)
        echo "$said"
        alone[$work]=$(rate "$said")
    done
}
wanted limits && [[ $limits == *alone* ]] && fits 75 "STEPS=limits LIMITS=alone" && for share in 10 30 50 70 100; do
    step "time: $share %"
    ALONE=${alone[product]} REEF_JOB=$share REEF_COMPUTE=$share% under none product 10
done
wanted limits && [[ $limits == *two* ]] && fits 160 "STEPS=limits LIMITS=two" && {
    step time: two without limits, which slice the device
    both 0 product 0 product
    step time: 30 % next to 70 %, then the same work-conserving, then copies next to products
    both 30 product 70 product
    REEF_COMPUTE_POLICY=soft both 30 product 70 product
    both 30 copy 70 product
    step time: 50 % next to 50 %, 10 % next to 90 %, three
    both 50 product 50 product
    both 10 product 90 product
    both 10 product 30 product 60 product
}
unset PROGRAM REEF_ACCOUNTS
# MPS at its best is the fair rival: alone under it in the same run, clients of two priorities, and the best-effort
# client with a part of the threads. A client's environment says its priority (1 is below normal) and its part.
wanted mps && fits 330 STEPS=mps && {
    dir=$(mktemp -d)
    export CUDA_MPS_PIPE_DIRECTORY=$dir/pipe CUDA_MPS_LOG_DIRECTORY=$dir/log
    mkdir -p "$dir/pipe" "$dir/log"
    if nvidia-cuda-mps-control -d; then
        mps=runs
        step alone, under MPS
        plain resnet50 graph 100,0 2
        plain resnet152 graph 0 3
        pair "MPS" none graph
        BE_WITH="CUDA_MPS_CLIENT_PRIORITY=1" RT_WITH="CUDA_MPS_CLIENT_PRIORITY=0" pair "MPS, priorities" none graph
        for share in ${SHARES:-50 25}; do
            BE_WITH="CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=$share" pair "MPS, $share % of threads" none graph
        done
        BE_WITH="CUDA_MPS_CLIENT_PRIORITY=1 CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=50" pair "MPS, both" none graph
        pair "MPS, gates" shim graph
        BE_WITH="CUDA_MPS_CLIENT_PRIORITY=1" pair "MPS, gates and priorities" shim graph
        step alone, under MPS, once more
        plain resnet50 graph 100,0 2
        echo quit | nvidia-cuda-mps-control
        mps=
    else
        echo "no MPS"
    fi
    unset CUDA_MPS_PIPE_DIRECTORY CUDA_MPS_LOG_DIRECTORY
}
step end
[ -z "$left" ] || { echo "no time was left for:" && printf '%s' "$left" | sed 's/^/  /'; }
[ ! -e "$out/failed" ]
