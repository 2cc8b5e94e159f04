#!/usr/bin/env bash
# What a user gets: makes all packages, offline, and unpacks them outside of the workspace. There each compiles
# from what is in the packages alone, README's example among them, and the documentation as docs.rs makes it. What
# makes code of them is the tests: here it is checked and not linked.
# With --verify cargo also builds each package by itself first. No package may be larger than the registry takes.
set -euo pipefail
cd "$(dirname "$0")/.."
export CARGO_NET_OFFLINE=true
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
packages="$target/package"
verify=(--no-verify)
[ "${1:-}" != --verify ] || verify=()

rm -f "$packages"/*.crate
cargo package --quiet --workspace --allow-dirty "${verify[@]}" \
    --exclude reef-kernels --exclude fake-libcuda --exclude fake-libnvml --exclude reef-remote-cuda --exclude reef-cudart --exclude reef-guest-loom --exclude reef-cpu-loom --exclude reef-loom --exclude reef-serve-loom --exclude reef-wire-loom --exclude reef-unify --exclude xtask

limit=$((10 << 20)) # bytes of a package that crates.io takes
large=$(find "$packages" -maxdepth 1 -name '*.crate' -size +${limit}c -printf '%f: must have at most '$limit' bytes, got %s\n')
[ -z "$large" ] || { echo "$large" >&2; exit 1; }
find "$packages" -maxdepth 1 -name '*.crate' -printf '%s %f\n' | sort -n | awk 'END { print "the largest package: " $2 ", " $1 " bytes" }'

outside=$(mktemp -d)
# What users compile for themselves is here already, for the same profile.
compiled="$target/outside"
trap 'rm -rf "$outside" "$compiled"' EXIT
rm -rf "$compiled" && mkdir -p "$compiled/debug"
for folder in .fingerprint build deps; do
    [ ! -e "$target/debug/$folder" ] || cp -al "$target/debug/$folder" "$compiled/debug/"
done
for crate in "$packages"/*.crate; do tar -xzf "$crate" -C "$outside"; done

mkdir -p "$outside/outsider/src"
# The first Rust example, as it stands.
awk '/^```rust$/ { inside = 1; next } /^```$/ { if (inside) exit } inside' README.md >"$outside/outsider/src/main.rs"
cat >"$outside/outsider/Cargo.toml" <<'MANIFEST'
[package]
name = "outsider"
version = "0.0.0"
edition = "2024"
publish = false

[dependencies]
reef = { package = "reef-rt", version = "0.1.0" }
MANIFEST

cp Cargo.lock "$outside"
profile=$(awk '/^\[/ { inside = /^\[profile\.dev/ } inside' Cargo.toml)
cd "$outside"
{
    printf '[workspace]\nresolver = "3"\nmembers = ["*"]\nexclude = ["target"]\n\n[patch.crates-io]\n'
    for folder in reef-*; do echo "${folder%-*} = { path = \"$folder\" }"; done
    printf '\n%s\n' "$profile"
} >Cargo.toml
export CARGO_TARGET_DIR="$compiled"
cargo check --quiet --workspace # the outside program too
# docs.rs has a nightly compiler, for `doc_cfg`.
RUSTC_BOOTSTRAP=1 RUSTDOCFLAGS="-D warnings --cfg docsrs" cargo doc --quiet --no-deps --package reef-rt --all-features
echo "$(ls -d reef-* | wc -l) packages compile, and README's example from them"
