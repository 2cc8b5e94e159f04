#!/usr/bin/env bash
# install_capi.sh PREFIX [FEATURES]: libreef.so, libreef.a, reef.h, reef.hpp and reef.pc for C and C++ programs;
# libcudareef.so, cudareef.h and reef-cudareef.pc for those of REEF's CUDA port.
# FEATURES as cargo takes them, such as cuda,hip; the software device is always there.
# $REEF_CAPI_BUILT: a folder with the libraries, which are then not built.
set -euo pipefail
[ $# -ge 1 ] || { echo "install_capi.sh PREFIX [FEATURES]" >&2; exit 2; }
top=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$1"
prefix=$(cd "$1" && pwd)

built=${REEF_CAPI_BUILT:-}
if [ -z "$built" ]; then
    (cd "$top" && cargo build --release --locked --package reef-capi --features "${2:-}")
    (cd "$top" && cargo build --release --locked --package reef-cudareef)
    built=${CARGO_TARGET_DIR:-$top/target}/release
fi
version=$(sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"/\1/p' "$top/Cargo.toml")

install -d "$prefix/lib/pkgconfig" "$prefix/include"
install -m 755 "$built/libreef_capi.so" "$prefix/lib/libreef.so.$version"
ln -sf "libreef.so.$version" "$prefix/lib/libreef.so.0"
ln -sf libreef.so.0 "$prefix/lib/libreef.so"
install -m 644 "$built/libreef_capi.a" "$prefix/lib/libreef.a"
install -m 644 "$top/crates/reef-capi/include/reef.h" "$top/crates/reef-capi/include/reef.hpp" "$prefix/include"
install -m 755 "$built/libcudareef.so" "$prefix/lib"
install -m 644 "$top/interpose/reef-cudareef/include/cudareef.h" "$prefix/include"
install -D -m 644 "$top/interpose/reef-cudareef/include/cudareef/reef.h" "$prefix/include/cudareef/reef.h"
for file in crates/reef-capi/reef interpose/reef-cudareef/reef-cudareef; do
    sed "s|@PREFIX@|$prefix|; s|@VERSION@|$version|" "$top/$file.pc.in" >"$prefix/lib/pkgconfig/${file##*/}.pc"
done
