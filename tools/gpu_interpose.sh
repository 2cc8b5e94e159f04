#!/usr/bin/env bash
# Unmodified PyTorch programs under the shim on an NVIDIA GPU: the same output, all launches seen, held and released.
# Each step has a time limit, and prints as it goes.
#   tools/gpu_interpose.sh FOLDER     FOLDER has libreef_cuda_shim.so and the example `registry` of reef-guest
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
plain() { timeout "${LIMIT:-40}" python3 "$here/${PROGRAM:-net.py}" "$@" 2>>"$out/errors" || echo "  failed: $?"; }
under() { # CLASS PROGRAM...: under the shim; no class: nothing but the shim
    local class=$1
    shift
    if [ "$class" = none ]; then
        LD_PRELOAD=$shim plain "$@"
    else
        rm -f "$out/report"
        LD_PRELOAD=$shim REEF_GUESTS=$socket REEF_CLASS=$class REEF_EXPLAIN=$out/report plain "$@"
        grep -E "guest|not sched|looked up|private" "$out/report" | sort | uniq | sed 's/^/    /'
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
wanted frameworks && for what in ${FRAMEWORKS:-cupy numba triton jax workers compile}; do
    step "$what: plain, shim, best-effort held at random, real-time"
    PROGRAM=frameworks.py plain $what
    PROGRAM=frameworks.py under none $what
    guests 7
    PROGRAM=frameworks.py under be $what
    guests
    PROGRAM=frameworks.py under rt $what
    stop
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
    step "$1: ResNet-50 graph beside ResNet-152 $3"
    export NET_SPANS=$out/spans
    rm -f "$NET_SPANS"
    [ "$2" = none ] || guests
    { if [ "$2" = none ]; then plain resnet152 "$3" 0 15; else under be resnet152 "$3" 0 15; fi } | sed 's/^/  BE /' &
    local be=$!
    sleep 8
    { if [ "$2" = none ]; then NET_CLASS=rt plain resnet50 graph 100,0 2; else NET_CLASS=rt under rt resnet50 graph 100,0 2; fi } |
        sed 's/^/  RT /'
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
wanted mps && {
    dir=$(mktemp -d)
    export CUDA_MPS_PIPE_DIRECTORY=$dir/pipe CUDA_MPS_LOG_DIRECTORY=$dir/log
    mkdir -p "$dir/pipe" "$dir/log"
    if nvidia-cuda-mps-control -d; then
        pair "MPS" none graph
        pair "MPS, gates" shim graph
        echo quit | nvidia-cuda-mps-control
    fi
}
step end
tail -n 5 "$out/errors" 2>/dev/null
