#!/usr/bin/env bash
# Runs convolutions and products of matrices, those on warpgroups and of few rows as well, attention, normalisation, running sums, scattered updates and lists of boxes on the host: device.h stands for what a GPU has.
#
#     kernels/emulated/run.sh [CASES]
set -euo pipefail
cd "$(dirname "$0")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp ./*.h ./*.cpp "$work"
for program in sums conv quantized quantized_sums warpgroups product products_by_groups attention normal few number plan functions arithmetic movement rows indexed suppress; do
    # The headers' own includes are what device.h stands for.
    sed '/^#include/d' "../$program.h" >"$work/$program.h"
done
for program in conv hopper product product_groups attention normal few scan scatter suppress; do
    "${CXX:-g++}" -std=c++17 -O2 -w -I"$work" "$work/$program.cpp" -o "$work/$program"
    "$work/$program" "${1:-10}"
done
