#!/usr/bin/env bash
# Checks the drop-in of docs/engines/systemd.md, with the daemon's units, by systemd-analyze.
set -euo pipefail
cd "$(dirname "$0")/../.."
command -v systemd-analyze >/dev/null || { echo "skipped: no systemd-analyze"; exit 0; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/serve.service.d"
awk '/^```ini$/ { inside = 1; next } /^```$/ { if (inside) exit } inside' docs/engines/systemd.md >"$work/serve.service.d/reef.conf"
# Programs that there are.
sed -i 's|/usr/bin/reef|/bin/true|; s|/usr/bin/python3|/bin/true|' "$work/serve.service.d/reef.conf"
printf '[Service]\nExecStart=/bin/false\n' >"$work/serve.service"
cp deploy/systemd/reef.service deploy/systemd/*.socket "$work"
sed -i 's|/usr/local/bin/reef|/bin/true|' "$work/reef.service"
SYSTEMD_UNIT_PATH="$work:" systemd-analyze verify --man=no "$work/serve.service" "$work/reef.service" 2>&1 | tee "$work/said"
if grep -qE 'serve|reef' "$work/said"; then exit 1; fi # its words on the units have been printed
SYSTEMD_UNIT_PATH="$work:" systemd-analyze cat-config --help >/dev/null
echo "systemd: the drop-in is well"
