#!/usr/bin/env bash
# Builds what hostile.sh and load.sh run on a machine without Rust, stripped, and says how large it is:
#
#     tools/serve_build.sh [FOLDER]      (default: target/serve)
#
# PROFILE=dev takes the profile of the tests, which has compiled most of it already.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=${1:-target/serve}
mkdir -p "$folder"
cargo build --profile "${PROFILE:-release}" -p reef-cli -p reef-serve --bin reef --test processes \
    --message-format=json |
    sed -n 's/.*"name":"\([^"]*\)".*"executable":"\([^"]*\)".*/\1 \2/p' |
    while read -r name file; do strip -o "$folder/$name" "$file"; done
echo "$(git describe --always --dirty), profile ${PROFILE:-release}" >"$folder/commit"
ls -lh "$folder"
