#!/usr/bin/env bash
# Builds what gpu_check.sh runs on a machine with an NVIDIA GPU, which needs neither Rust nor a network:
#
#     tools/gpu_build.sh [FOLDER]        (default: target/gpu)
#
# PROFILE=dev takes the profile of the tests, which has compiled most of it already.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=${1:-target/gpu}
profile=${PROFILE:-release}
mkdir -p "$folder"

# Puts the executables that cargo makes into the folder, under their names and without debug information.
keep() {
    sed -n 's/.*"name":"\([^"]*\)".*"executable":"\([^"]*\)".*/\1 \2/p' |
        while read -r name file; do strip -o "$folder/$name" "$file"; done
}

build() { cargo "$@" --profile "$profile" --message-format=json | keep; }

build test --features cuda --test conformance --test networks --no-run
build test -p reef-cuda --test lost --test modules --test gates --test given_up --no-run
build build -p reef-cli --features cuda
git describe --always --dirty >"$folder/commit"
ls -lh "$folder"
