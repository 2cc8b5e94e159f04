#!/usr/bin/env bash
# Builds what tools/gpu_interpose.sh runs on a machine that needs neither Rust nor a network:
#   tools/interpose/build.sh [FOLDER]        (default: target/gpu-shim)
# PROFILE=dev takes the profile of the tests, which has compiled most of it already. tools/interpose/programs.sh FOLDER
# adds the seven programs with a linked runtime.
set -euo pipefail
cd "$(dirname "$0")/../.."
folder=${1:-target/gpu-shim}
profile=${PROFILE:-release}
mkdir -p "$folder"
cargo build --profile "$profile" -p reef-shim -p reef-guest --lib --example registry
built=${CARGO_TARGET_DIR:-target}/$([ "$profile" = dev ] && echo debug || echo "$profile")
strip -o "$folder/libreef_cuda_shim.so" "$built/libreef_cuda_shim.so"
strip -o "$folder/registry" "$built/examples/registry"
git describe --always --dirty >"$folder/commit"
ls -l "$folder"
