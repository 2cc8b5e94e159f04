#!/usr/bin/env bash
# bills.sh FOLDER VERSION FEATURES PACKAGE...: makes in FOLDER a bill of materials (CycloneDX 1.5) of each package, by
# cargo-cyclonedx. It writes next to manifests, so it sees a copy of them. The same commit gives the same bytes.
set -euo pipefail
cd "$(dirname "$0")/../.."
files=$(realpath "$1") version=$2 features=$3
shift 3
rm -f "$files"/*.cdx.json
cyclonedx=$(tools/cargo_tool.sh cargo-cyclonedx 0.5.9) || { echo "$cyclonedx" >&2; exit 1; }
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH

copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
# What cargo reads, or finds to be there.
git ls-files -z '*.rs' '*Cargo.toml' Cargo.lock | xargs -0 cp --parents -t "$copy"
(cd "$copy" && "$cyclonedx" cyclonedx --quiet --format json --spec-version 1.5 --target x86_64-unknown-linux-gnu --features "$features")
cmp -s Cargo.lock "$copy/Cargo.lock" || { echo "Cargo.lock: must fit the manifests" >&2; exit 1; }
for package; do
    mapfile -t bills < <(find "$copy" -name "$package.cdx.json")
    [ ${#bills[@]} = 1 ] || { echo "$package: must have one bill of materials, got ${#bills[@]}" >&2; exit 1; }
    # Names of components have the path of the copy in them.
    sed "s|path+file://$copy|path+file:///reef|g" "${bills[0]}" >"$files/$package-$version.cdx.json"
done
echo "$# bills of materials"
