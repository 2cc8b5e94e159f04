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

build test -p reef-rt --features cuda --test conformance --test networks --no-run
build test -p reef-cuda --test lost --test modules --test gates --test abandoned --test abandoned_full --no-run
build build -p reef-cli --features cuda
cargo build --profile "$profile" -p reef-shim
# C programs with their libraries. The driver that is made of functions stands for that of the machine to come.
cargo build --profile "$profile" -p reef-capi -p reef-cudareef -p fake-libcuda --features reef-capi/cuda
built=${CARGO_TARGET_DIR:-target}/$([ "$profile" = dev ] && echo debug || echo "$profile")
strip -o "$folder/libreef_cuda_shim.so" "$built/libreef_cuda_shim.so"
REEF_CAPI_BUILT=$built tools/install_capi.sh "$folder/c"
rm "$folder/c/lib/libreef.a" # large, and not needed
strip "$folder"/c/lib/lib*.so
libraries=(-L "$folder/c/lib" -Wl,-rpath,'$ORIGIN/c/lib')
cc examples/c/infer.c -I "$folder/c/include" "${libraries[@]}" -lreef -o "$folder/infer"
c++ -std=c++17 -pthread crates/reef-capi/tests/c/port.cpp -I "$folder/c/include/cudareef" "${libraries[@]}" -lcudareef \
    "$built/libfake_libcuda.so" -o "$folder/port"
# ONNX's node tests, for a machine without a network.
for version in 1.17.0 1.23.2; do
    tar -czf "$folder/onnx_nodes-$version.tar.gz" -C "$(tools/onnx_fetch.sh "$version")" node
done
git describe --always --dirty >"$folder/commit"
ls -lh "$folder"
