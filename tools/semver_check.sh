#!/usr/bin/env bash
# Compares the public names with those of the last tag; installs cargo-semver-checks when it is needed.
set -euo pipefail
cd "$(dirname "$0")/.."
tag=$(git describe --tags --abbrev=0 --match 'v*' 2>/dev/null) || {
    echo "skipped: no tag to compare with"
    exit 0
}
cargo semver-checks --version >/dev/null 2>&1 || cargo install --quiet --locked cargo-semver-checks
cargo semver-checks --workspace --baseline-rev "$tag"
