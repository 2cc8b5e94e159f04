#!/usr/bin/env bash
# Are the images of device code those of kernels/*.cu? Compiling them anew takes a hundred seconds of processors, so
# they are compared only if a file that they come from, or an image, is not as it was at the last comparison.
# `--record` compares in any case and notes that; commit the note with the images.
set -euo pipefail
cd "$(dirname "$0")/.."
record=kernels/build/compared.txt
files=(kernels reef-cuda/images reef-hip/images reef-cuda/src/code/nvrtc.rs ":!$record" ":!kernels/README.md")

# A hash over names and contents of all files; none if git doesn't have them as they are here.
identity() {
    [ -z "$(git status --porcelain -- "${files[@]}")" ] && git ls-files --stage -- "${files[@]}" | git hash-object --stdin
}

if [ "${1:-}" = --record ]; then
    said=$(cargo xtask kernels --check | tee /dev/stderr)
    [[ $said != *skipped* ]] || { echo "not all were compared: nothing is noted" >&2; exit 1; }
    now=$(identity) || { echo "commit kernels and images first: git has other files" >&2; exit 1; }
    echo "$now" >"$record"
elif now=$(identity) && [ -f "$record" ] && [ "$now" = "$(cat "$record")" ]; then
    echo "images and their sources are, by hash, those that were compared: $now"
else
    cargo xtask kernels --check
fi
