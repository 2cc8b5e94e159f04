#!/usr/bin/env bash
# What a stranger gets: makes all packages and builds each by itself, offline; then a project outside of the
# workspace builds the README's example, its features and its documentation from the packages.
set -euo pipefail
cd "$(dirname "$0")/.."
export CARGO_NET_OFFLINE=true CARGO_PROFILE_DEV_DEBUG=0
packages="${CARGO_TARGET_DIR:-target}/package"

rm -f "$packages"/*.crate
cargo package --quiet --workspace --allow-dirty \
    --exclude reef-kernels --exclude reef-loom --exclude reef-serve-loom --exclude xtask

outside=$(mktemp -d)
trap 'rm -rf "$outside"' EXIT
mkdir -p "$outside/project/src"
cp Cargo.lock "$outside/project"
# The first Rust example, as it stands.
awk '/^```rust$/ { inside = 1; next } /^```$/ { if (inside) exit } inside' README.md >"$outside/project/src/main.rs"
cat >"$outside/project/Cargo.toml" <<'MANIFEST'
[package]
name = "stranger"
version = "0.0.0"
edition = "2024"
publish = false

[features]
gpus = ["reef/cuda", "reef/hip"]

[dependencies]
reef = { package = "reef-rt", version = "0.1.0" }

[workspace]

[patch.crates-io]
MANIFEST
for crate in "$packages"/*.crate; do
    tar -xzf "$crate" -C "$outside"
    folder=$(basename "$crate" .crate)
    echo "${folder%-*} = { path = \"../$folder\" }" >>"$outside/project/Cargo.toml"
done

cd "$outside/project"
export CARGO_TARGET_DIR="$outside/target"
cargo build --quiet
cargo check --quiet --features gpus
RUSTDOCFLAGS="-D warnings --cfg docsrs" cargo doc --quiet --no-deps --package reef-rt --all-features
echo "packages: $(ls "$outside" | grep -c -- '-[0-9]'), and README's example builds from them"
