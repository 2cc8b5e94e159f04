#!/usr/bin/env bash
# Runs each fuzz target, or those that are named, for a while: tools/fuzz.sh [SECONDS [TARGET...]]
# Needs a nightly toolchain; installs cargo-fuzz if it is not there. Begins with fuzz/seeds/TARGET, keeps what
# it finds new in fuzz/corpus/TARGET, and what breaks something in fuzz/artifacts/TARGET: an input that takes 10 s is kept
# there, one that takes 60 s ends the run. That is time by the clock, which others of a busy machine take part of.
set -euo pipefail
cd "$(dirname "$0")/../fuzz"

seconds=${1:-60}
shift || true
models=(graph param onnx weights guests program requests snapshot ptx_image ptx_text ptx_variant replay wire)
serve=(config local http)
(($#)) || set -- "${models[@]}" "${serve[@]}"

if ! rustup run nightly rustc --version >/dev/null 2>&1; then
    echo "skipped: no nightly toolchain"
    exit 1
fi
cargo fuzz --version >/dev/null 2>&1 || cargo install --quiet --locked cargo-fuzz

if [[ " $* " == *" requests "* ]]; then
    (cd .. && cargo build --quiet --package fake-libcuda)
    export REEF_CUDA=${CARGO_TARGET_DIR:-$PWD/../target}/debug/libfake_libcuda.so
fi

for target in "$@"; do
    features=() memory=2048 most=512 leaks=1
    [[ " ${models[*]} " == *" $target "* ]] && features=(--no-default-features)
    options=${ASAN_OPTIONS:-}
    # Their readers have a budget of 32 MiB; what AddressSanitizer and the corpus take comes on top. Of what was freed the
    # sanitizer keeps 256 MiB by default.
    [[ " onnx weights " == *" $target "* ]] && memory=512 most=40 options=$options:quarantine_size_mb=64
    # Host functions of graphs live as long as a worker's process: 65,536 at most. The sanitizer looks at the end as well.
    [[ $target == requests ]] && leaks=0 options=$options:detect_leaks=0
    mkdir -p "corpus/$target"
    printf '\n== %s for %d s\n' "$target" "$seconds"
    ASAN_OPTIONS=$options cargo +nightly fuzz run "${features[@]}" "$target" "corpus/$target" "seeds/$target" -- \
        -max_total_time="$seconds" -timeout=60 -report_slow_units=10 -rss_limit_mb=$memory -malloc_limit_mb=$most -detect_leaks=$leaks -print_final_stats=1
done
