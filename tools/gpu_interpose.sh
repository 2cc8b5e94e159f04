#!/usr/bin/env bash
# Unmodified PyTorch programs under the shim on an NVIDIA GPU: the same output, all launches seen, held and released.
# Each step has a time limit, and prints as it goes.
#   tools/gpu_interpose.sh FOLDER     FOLDER has libreef_cuda_shim.so and the example `registry` of reef-guest, and what
#                                     tools/interpose/programs.sh built; without that, nvcc has to be in the PATH
#   STEPS="names same frameworks static seen cost pair mps" chooses; FRAMEWORKS, PROGRAMS and MODES likewise.
set -u
bin=$(realpath "${1:-target/release}")
here=$(dirname "$(realpath "$0")")/interpose
out=${OUT:-$(mktemp -d)}
shim=$bin/libreef_cuda_shim.so
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
    [ -z "$registry" ] || { kill "$registry"; wait "$registry" 2>/dev/null; tail -n 1 "$out/guests.log" | sed 's/^/    /'; }
    registry=
    rm -f "$socket"
}
trap stop EXIT
plain() {
    local run=("python3" "$here/${PROGRAM:-net.py}")
    [ -z "${STATIC:-}" ] || run=("$STATIC")
    timeout "${LIMIT:-40}" "${run[@]}" "$@" 2>>"$out/errors" && return
    local code=$? # 77: it can't run here, and has said why
    [ $code = 77 ] || echo "  failed: $code"
}
under() { # CLASS PROGRAM...: under the shim; no class: nothing but the shim
    local class=$1
    shift
    if [ "$class" = none ]; then
        LD_PRELOAD=$shim plain "$@"
    else
        rm -f "$out/report"
        LD_PRELOAD=$shim REEF_GUESTS=$socket REEF_CLASS=$class REEF_EXPLAIN=$out/report plain "$@"
        grep -E "guest|not sched|looked up|private|in front alone" "$out/report" | sort | uniq | sed 's/^/    /'
    fi
}
step() { echo "== $* ($(date +%T))"; }
wanted() { [ -z "${STEPS:-}" ] || [[ " $STEPS " == *" $1 "* ]]; }

wanted names && {
    step names of the driver that we do not export
    driver=$(ldconfig -p | awk '/libcuda.so.1 / { print $NF; exit }')
    driver=${driver:-$(ls /usr/local/nvidia/lib64/libcuda.so.1)}
    nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
    nm -D --defined-only "$driver" | awk '{ print $3 }' | sed 's/@.*//' | grep '^cu[A-Z]' | sort >"$out/theirs"
    nm -D --defined-only "$shim" | awk '{ print $3 }' | grep '^cu[A-Z]' | sort >"$out/ours"
    echo "theirs $(wc -l <"$out/theirs"), of which not ours: $(comm -23 "$out/theirs" "$out/ours" | tr '\n' ' ')"
}
wanted same && for mode in ${MODES:-eager graph train}; do
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
five() { # LABEL PROGRAM...: a program in each of the five ways
    step "$1: plain, shim, best-effort open, best-effort held at random, real-time"
    shift
    plain "$@"
    under none "$@"
    guests
    under be "$@"
    guests 7
    under be "$@"
    guests
    under rt "$@"
    stop
}
frameworks="cupy numba triton jax cooperative workers workers-spawn compile compile-default expandable malloc-async generate nccl"
wanted frameworks && for what in ${FRAMEWORKS:-$frameworks}; do
    LIMIT=${LIMIT:-90} PROGRAM=frameworks.py five "$what" "$what"
done
wanted static && for what in ${PROGRAMS:-streams events graphs cooperative managed}; do
    program=$bin/static-$what
    if [ ! -x "$program" ]; then
        program=$out/static-$what
        nvcc -O2 -std=c++17 -cudart static -arch native "$here/programs/$what.cu" -o "$program" 2>>"$out/errors" ||
            { echo "static-$what: not built, and nvcc can't"; continue; }
    fi
    STATIC=$program five "static-$what"
done
wanted seen && for mode in eager graph; do
    step "$mode: launches that CUPTI saw in 20 runs; the counts below have preparation in them too"
    guests
    NET_PROFILE=1 under be resnet18 $mode 0 0 20
    stop
done
wanted cost && for mode in ${MODES:-eager graph}; do
    step "$mode: what it costs, closed loop of 3 s"
    plain resnet50 $mode 0 3
    under none resnet50 $mode 0 3
    guests
    under be resnet50 $mode 0 3
    under rt resnet50 $mode 0 3
    stop
done
pair() { # LABEL SHIM MODE: a real-time network at 100/s and in a closed loop, beside a best-effort one
    # $BE_WITH and $RT_WITH: variables of one side alone
    step "$1: ResNet-50 graph beside ResNet-152 $3${BE_WITH:+, BE $BE_WITH}${RT_WITH:+, RT $RT_WITH}"
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
wanted pair && {
    step alone
    plain resnet50 graph 100,0 2
    pair "time slices" none graph
    pair "time slices, gates" shim graph
    pair "time slices, gates" shim eager
}
# MPS at its best is the fair rival: alone under it in the same run, clients of two priorities, and the best-effort
# client with a part of the threads. A client's environment says its priority (1 is below normal) and its part.
wanted mps && {
    dir=$(mktemp -d)
    export CUDA_MPS_PIPE_DIRECTORY=$dir/pipe CUDA_MPS_LOG_DIRECTORY=$dir/log
    mkdir -p "$dir/pipe" "$dir/log"
    if nvidia-cuda-mps-control -d; then
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
    fi
}
step end
tail -n 5 "$out/errors" 2>/dev/null
