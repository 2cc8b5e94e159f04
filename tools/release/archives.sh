#!/usr/bin/env bash
# archives.sh FOLDER VERSION BUILT: the command and the C library as archives that are unpacked anywhere. The same input
# gives the same bytes.
set -euo pipefail
cd "$(dirname "$0")/../.."
files=$(realpath "$1") version=$2 built=$(realpath "$3")
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
moment=$(git log -1 --format=%ct)

archive() { # NAME
    cp LICENSE-APACHE LICENSE-MIT CHANGELOG.md "$stage/$1/"
    find "$stage/$1" -type f -exec chmod u=rwX,go=rX {} +
    tar -C "$stage" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$moment" -cf - "$1" | gzip -9n >"$files/$1.tar.gz"
    echo "$1.tar.gz: $(stat -c %s "$files/$1.tar.gz" | numfmt --to=si)B"
}

tar -C deploy/helm --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$moment" -cf - reef | gzip -9n >"$files/reef-chart-$version.tgz"

name=reef-$version-x86_64-linux
tools/release/command.sh "$stage/$name" "$built"
cp README.md "$stage/$name/"
archive "$name"

name=libreef-$version-x86_64-linux
REEF_CAPI_BUILT=$built tools/install_capi.sh "$stage/$name" >/dev/null
sed -i 's|^prefix=.*|prefix=${pcfiledir}/../..|' "$stage/$name"/lib/pkgconfig/*.pc
strip --strip-debug "$stage/$name/lib/libreef.a"
strip --strip-unneeded "$stage/$name/lib/libreef.so.$version" "$stage/$name/lib/libcudareef.so"
cp -r examples/c "$stage/$name/examples"
archive "$name"
