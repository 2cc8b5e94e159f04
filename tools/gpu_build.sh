#!/usr/bin/env bash
# Builds what runs on a machine with an NVIDIA GPU, which needs no Rust toolchain: gpu_build.sh FOLDER.
# Copy the folder there, with reef-models/golden and tools/, and call gpu_run.sh.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=${1:?where to}
mkdir -p "$folder"

# The executables that cargo names on its last lines, without debug information.
keep() {
    sed -n 's/.*Executable .*(\(.*\))$/\1/p' | while read -r file; do
        name=$(basename "$file")
        strip -o "$folder/${name%-*}" "$file"
    done
}

cargo test --release --features cuda --test conformance --test networks --no-run 2>&1 | tee /dev/stderr | keep
cargo test --release -p reef-cuda --test lost --test modules --test gates --test given_up --no-run 2>&1 | tee /dev/stderr | keep
cargo build --release -p reef-cli --features cuda
strip -o "$folder/reef" target/release/reef
