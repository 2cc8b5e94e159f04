#!/usr/bin/env bash
# Licences and sources of all packages that a build of the workspace can take, by the rules of .cargo/deny.toml, with
# cargo-deny. `tools/deny.sh advisories` asks a database on the network for known faults instead. Its status is 77 if
# cargo-deny can't be installed.
set -euo pipefail
cd "$(dirname "$0")/.."
deny=$(tools/cargo_tool.sh cargo-deny 0.20.2) || { echo "skipped: $deny"; exit 77; }
[ $# != 0 ] || set -- bans licenses sources
"$deny" --locked --workspace check "$@"
