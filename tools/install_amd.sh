#!/usr/bin/env bash
# AMD's HIP runtime with its run-time compiler, for the tests on the software gfx906, and clang for those
# that compile device code ahead of time. Needs Debian or Ubuntu and root, but no AMD GPU and no driver.
# What can't be had is said aloud; the tests that need it skip.
set -uo pipefail

have() { ldconfig -p | grep -q "$1"; }

if have libamdhip64.so && command -v clang++-19 >/dev/null && command -v ld.lld-19 >/dev/null &&
    command -v llvm-objdump-19 >/dev/null; then
    exit 0
fi
if ! command -v apt-get >/dev/null || [ "$(id -u)" -ne 0 ]; then
    echo "skipped: AMD's HIP runtime: needs apt-get and root"
    exit 0
fi
export DEBIAN_FRONTEND=noninteractive
install() { apt-get install -y -qq --no-install-recommends -o DPkg::Lock::Timeout=300 "$@" >/dev/null 2>&1; }

apt-get update -qq >/dev/null 2>&1
install libamdhip64-5 libhiprtc-builtins5 ||
    echo "skipped: AMD's HIP runtime: libamdhip64-5 and libhiprtc-builtins5 could not be installed"
install clang-19 lld-19 llvm-19 ||
    echo "skipped: clang for gfx906: clang-19, lld-19 and llvm-19 could not be installed"
exit 0
