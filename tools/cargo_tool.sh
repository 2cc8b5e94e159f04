#!/usr/bin/env bash
# cargo_tool.sh NAME VERSION: prints the path of one of cargo's tools in exactly this version. If PATH has another one or
# none, installs it in target/tools, which takes minutes. Where it can't be installed, prints that instead and fails.
set -euo pipefail
cd "$(dirname "$0")/.."
name=$1 version=$2
tools=$(realpath -m "${CARGO_TARGET_DIR:-target}")/tools
for program in "$(command -v "$name" || true)" "$tools/bin/$name"; do
    if [[ $("$program" "${name#cargo-}" --version 2>/dev/null) = *" $version" ]]; then
        echo "$program"
        exit
    fi
done
echo "installs $name $version in $tools" >&2
# Without the target folder it compiles in a folder of its own, so that it waits for no other build.
env -u CARGO_TARGET_DIR cargo install --quiet --locked --root "$tools" --version "$version" "$name" >&2 ||
    { echo "$name $version can't be installed"; exit 1; }
echo "$tools/bin/$name"
