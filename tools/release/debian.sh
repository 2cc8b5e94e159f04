#!/usr/bin/env bash
# debian.sh FOLDER VERSION BUILT: the Debian package `reef-rt`: the command, its libraries, and the daemon's units, user and
# configuration. The units are not enabled: the configuration names a GPU, and a daemon needs models.
set -euo pipefail
cd "$(dirname "$0")/../.."
files=$(realpath "$1") version=$2 built=$(realpath "$3")
command -v dpkg-deb >/dev/null || { echo "skipped: no dpkg-deb: no Debian package"; exit 0; }
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
chmod 755 "$stage"

tools/release/command.sh "$stage/usr/lib/reef/tree" "$built"
mv "$stage/usr/lib/reef/tree/bin" "$stage/usr/lib/reef/bin"
mkdir -p "$stage/usr/lib/reef/lib" "$stage/usr/bin"
mv "$stage/usr/lib/reef/tree/lib/reef" "$stage/usr/lib/reef/lib/reef"
rmdir "$stage/usr/lib/reef/tree/lib" "$stage/usr/lib/reef/tree"
ln -s ../lib/reef/bin/reef "$stage/usr/bin/reef"
install -m 644 -D deploy/systemd/reef.sysusers "$stage/usr/lib/sysusers.d/reef.conf"
install -m 644 -D deploy/systemd/reef.toml -t "$stage/etc/reef/"
install -m 644 -D deploy/systemd/reef*.socket deploy/systemd/reef.service -t "$stage/usr/lib/systemd/system/"
sed -i 's|/usr/local/bin/reef|/usr/bin/reef|' "$stage/usr/lib/systemd/system/reef.service"
install -d -m 755 "$stage/var/lib/reef/models"
install -m 644 -D CHANGELOG.md -t "$stage/usr/share/doc/reef-rt/"
cat LICENSE-MIT LICENSE-APACHE >"$stage/usr/share/doc/reef-rt/copyright"
gzip -9n "$stage/usr/share/doc/reef-rt/CHANGELOG.md"

# The newest version of glibc that a symbol needs.
glibc=$(find "$stage/usr/lib/reef" -type f -exec objdump -T {} + | grep -o 'GLIBC_2\.[0-9]*' | sort -Vu | tail -n 1)
mkdir "$stage/DEBIAN"
cat >"$stage/DEBIAN/control" <<CONTROL
Package: reef-rt
Version: $version
Architecture: amd64
Maintainer: the authors of REEF in Rust <reef-rt@localhost>
Section: science
Priority: optional
Installed-Size: $(du -sk --exclude=DEBIAN "$stage" | cut -f 1)
Depends: libc6 (>= ${glibc#GLIBC_}), libgcc-s1, procps
Recommends: systemd
Description: real-time and best-effort inference on one accelerator
 The command reef, the daemon reef serve with its units, and the libraries by
 which unmodified CUDA programs share a GPU. A real-time request starts within
 microseconds, and best-effort work loses nothing.
CONTROL
echo /etc/reef/reef.toml >"$stage/DEBIAN/conffiles"
cat >"$stage/DEBIAN/postinst" <<'SCRIPT'
#!/bin/sh
set -e
if [ "$1" = configure ]; then
    if command -v systemd-sysusers >/dev/null; then
        systemd-sysusers reef.conf
    elif ! getent passwd reef >/dev/null; then
        useradd --system --user-group --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin reef
    fi
    if [ -d /run/systemd/system ]; then systemctl daemon-reload; fi
    # A daemon that runs is replaced by the new version; its sockets stay, and clients wait.
    if [ -d /run/systemd/system ] && [ -n "$2" ]; then systemctl try-restart reef.service; fi
fi
SCRIPT
cat >"$stage/DEBIAN/prerm" <<'SCRIPT'
#!/bin/sh
set -e
if [ "$1" = remove ] && [ -d /run/systemd/system ]; then
    systemctl disable --now reef.service reef-local.socket reef-grpc.socket reef-http.socket || true
fi
SCRIPT
cat >"$stage/DEBIAN/postrm" <<'SCRIPT'
#!/bin/sh
set -e
if [ "$1" = purge ]; then rm -rf /var/cache/reef; fi
if [ -d /run/systemd/system ]; then systemctl daemon-reload; fi
SCRIPT
chmod 755 "$stage"/DEBIAN/p*
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct) dpkg-deb --root-owner-group -Zxz --build "$stage" "$files/reef-rt_${version}_amd64.deb"
echo "needs glibc ${glibc#GLIBC_}"
