#!/usr/bin/env bash
# Makes crates/reef-capi/include/reef.h out of the sources; with --check compares. Needs cbindgen:
# cargo install cbindgen --version 0.29.4 --locked
set -euo pipefail
cd "$(dirname "$0")/../crates/reef-capi"
command -v cbindgen >/dev/null || { echo "no cbindgen: cargo install cbindgen --version 0.29.4 --locked" >&2; exit 2; }

made=$(mktemp)
trap 'rm -f "$made"' EXIT
# The heading of rustdoc's sections goes; C's callers have to keep to what stands below it all the same.
cbindgen --quiet --config cbindgen.toml --crate reef-capi . | perl -0pe 's{//\n// # Safety\n//\n}{//\n}g' >"$made"
if [ "${1:-}" = --check ]; then
    diff -u include/reef.h "$made" || { echo "include/reef.h is old: tools/capi_header.sh" >&2; exit 1; }
else
    cp "$made" include/reef.h
fi
