#!/usr/bin/env bash
# The engines of examples/process behind a daemon on an NVIDIA GPU: one of the transformers library, one of ONNX Runtime.
# Nothing is built here, and nothing downloaded.
#
#     tools/engines/gpu_check.sh [FOLDER [SECONDS [TURNS]]]
#
# FOLDER (target/gpu) has `reef` with CUDA and libreef_cuda_shim.so, and in python/ the package `reef`, unless it is that of
# this checkout. $PYTHON (python3) has torch with transformers, onnxruntime, and torchvision for training; what is missing is
# skipped aloud. Both engines are asked. Then it prints the latency of a token of real-time requests, alone and next to
# best-effort training: of the engine, by its client's clock and by its own, and of the same model in a loop under
# `reef exec --class rt`, by its own. Each takes SECONDS (20); next to training both take TURNS (5).
# At the end come the engine's requests whose tokens are slow as a whole, with the holds that the daemon counted meanwhile: of a
# request that is held as a whole 1, of one that lets others run between its tokens about as many as it has tokens, otherwise 0.
# Fails if an answer is wrong, or a program does not start.
set -euo pipefail
cd "$(dirname "$0")/../.."
folder=$(realpath -m "${1:-target/gpu}")
for file in reef libreef_cuda_shim.so; do
    [ -s "$folder/$file" ] || { echo "no $folder/$file"; exit 2; }
done
package=$folder/python
[ -d "$package/reef" ] || package=$PWD/crates/reef-python/python
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
umask 022 # the daemon starts no program that others could replace
export PATH=$folder:$PATH PYTHONPATH=$package REEF_SHIM=$folder/libreef_cuda_shim.so XDG_RUNTIME_DIR=$work
"${PYTHON:-python3}" tools/engines/gpu_check.py "$work" "${2:-20}" "${3:-5}"
