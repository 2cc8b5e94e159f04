#!/usr/bin/env bash
# Runs the products of matrices for tensor cores on the host: device.h stands for what a GPU has.
#
#     kernels/emulated/run.sh [CASES]
set -euo pipefail
cd "$(dirname "$0")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp device.h product.cpp "$work"
# The header's own includes are what device.h stands for.
sed '/^#include/d' ../product.h >"$work/product.h"
"${CXX:-g++}" -std=c++17 -O2 -w -I"$work" "$work/product.cpp" -o "$work/product"
"$work/product" "${1:-10}"
