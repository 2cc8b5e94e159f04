#!/usr/bin/env bash
# Runs the tests of reef-gfx906 that need AMD's runtime on Debian 13's (HIP 5.7.1, ROCr 6.1.2), in a folder of
# their own. Needs root, mmdebstrap and about 1.5 GB: tools/test_on_debian13.sh [folder]
set -euo pipefail
cd "$(dirname "$0")/.."
root="${1:-target/debian13}"

if [ ! -e "$root/done" ]; then
    mkdir -p "$root"
    mmdebstrap --variant=minbase --include=libamdhip64-5,libhiprtc-builtins5 trixie |
        tar -C "$root" -x --exclude='./dev/*'
    touch "$root/done"
fi

mkdir -p "$root/tests"
programs=$(cargo test -p reef-gfx906 --no-run --message-format=json |
    sed -n 's/.*"kind":\["test"\].*"executable":"\([^"]*\)".*/\1/p')
cp target/debug/libreef_gfx906.so "$root/tests/"
# What is mounted there is mounted for this run alone.
inside='mount -t proc proc "$0/proc" && mount --bind /dev "$0/dev" && chroot "$0" "$1"'
run() { unshare --mount sh -c "$inside" "$root" "/tests/$1"; }
failed=0
for program in $programs; do
    cp "$program" "$root/tests/"
    run "$(basename "$program")" || failed=1
done
exit "$failed"
