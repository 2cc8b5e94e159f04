#!/usr/bin/env bash
# try.sh FOLDER VERSION [ROOT]: installs each file of a release in a root of its own, as a user does, and runs the first
# minute of its README. The roots are Debian with Python, a C compiler and systemd, and nothing of this repository, Rust or
# the network. ROOT is such a root, which is not changed; without it debootstrap makes one. Needs root.
set -euo pipefail
cd "$(dirname "$0")/../.."
files=$(realpath "$1") version=$2 root=${3:-}
[ "$(id -u)" = 0 ] || { echo "skipped: not root: nothing is installed"; exit 0; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
(cd "$files" && sha256sum --quiet --check SHA256SUMS)

if [ -z "$root" ]; then
    command -v debootstrap >/dev/null || { echo "skipped: no debootstrap: nothing is installed"; exit 0; }
    root=$work/root
    debootstrap --variant=minbase --include=python3,python3-pip,python3-venv,gcc,g++,libc6-dev,pkg-config,procps,systemd \
        bookworm "$root" >"$work/debootstrap" 2>&1 || { tail "$work/debootstrap"; exit 1; }
fi
minor=$(chroot "$root" python3 -c 'import sys; print(sys.version_info[1])')
mkdir "$work/wheels"
python3 -m pip download --quiet --no-deps --only-binary=:all: --python-version "3.$minor" --dest "$work/wheels" "numpy>=1.24"

failed=()
# In a root of its own, with the files in /files, without network; stdin is the script.
try() { # NAME
    local name=$1
    echo "-- $name"
    cat >"$work/script"
    if unshare --mount --net --pid --fork --kill-child bash -euc '
        root=$1 work=$2 files=$3
        mkdir -p "$work/merged"
        mount -t tmpfs none /mnt && mkdir /mnt/upper /mnt/work
        mount -t overlay none -o "lowerdir=$root,upperdir=/mnt/upper,workdir=/mnt/work" "$work/merged"
        cd "$work/merged"
        mkdir -p files wheels
        mount --bind -o ro "$files" files && mount --bind -o ro "$work/wheels" wheels && mount --rbind /dev dev
        mount -t proc none proc && mount -t tmpfs none tmp && mount -t tmpfs none run
        cp "$work/script" tmp/script
        # What must not be there.
        for name in cargo rustc reef; do ! chroot . sh -c "command -v $name" || exit 9; done
        exec timeout 600 chroot . env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin TMPDIR=/tmp VERSION="$4" \
            LANG=C.UTF-8 bash -euo pipefail /tmp/script
    ' try "$root" "$work" "$files" "$version" >"$work/log" 2>&1; then
        sed 's/^/   /' "$work/log" | tail -n 12
    else
        sed 's/^/   /' "$work/log" | tail -n 40
        echo "FAILED: $name"
        failed+=("$name")
    fi
}

# A daemon with models of its own on the CPU, and requests of both classes.
serve='
serve() { # OPTIONS
    "$@" --device cpu:0 --load resnet18 --set models.builtin=true >/tmp/serve.log 2>&1 &
    for ((i = 0; i < 600; i++)); do
        [ ! -S "$folder/local.sock" ] || break
        kill -0 $! || { cat /tmp/serve.log; exit 1; }
        sleep 0.1
    done
    reef request resnet18 --class rt --requests 3 --socket-dir "$folder"
}'

try "archive of the command" <<SCRIPT
cd /opt && tar -xzf /files/reef-\$VERSION-x86_64-linux.tar.gz
export PATH=\$PATH:/opt/reef-\$VERSION-x86_64-linux/bin
reef --version | grep -F "\$VERSION"
ldconfig
if ldconfig -p | grep -E 'libcuda|libnvidia-ml'; then exit 1; fi
reef doctor | head -3 || true
# It has found its library; a file has to stand for the driver, and not that of the program.
REEF_CUDA=/bin/false reef exec --explain --call-profile -- true 2>&1 | grep 'lib/reef/libreef_cuda_shim.so'
reef demo --time 500ms --size 96 --out /tmp/demo
$serve
folder=/tmp/sockets; serve reef serve --socket-dir \$folder
SCRIPT

try "Debian package" <<SCRIPT
dpkg -i /files/reef-rt_\${VERSION}_amd64.deb
reef --version | grep -F "\$VERSION"
ldconfig
if ldconfig -p | grep -E 'libcuda|libnvidia-ml'; then exit 1; fi
systemd-analyze verify --man=no /usr/lib/systemd/system/reef{.service,-local.socket,-grpc.socket,-http.socket}
echo "the units are well"
getent passwd reef
REEF_CUDA=/bin/false reef exec --explain --call-profile -- true 2>&1 | grep 'lib/reef/libreef_cuda_shim.so'
# As the unit starts it, but for the device and the sockets.
$serve
folder=/run/reef; install -d -o reef -g reef \$folder
serve setpriv --reuid reef --regid reef --clear-groups reef serve --config /etc/reef/reef.toml --socket-dir \$folder \
    --set listen.users=owner
kill %1 && wait %1 || true
dpkg -P reef-rt
for left in /usr/lib/reef /usr/bin/reef /etc/reef; do [ ! -e \$left ] || { echo "\$left is left"; exit 1; }; done
SCRIPT

try "archive of the C library" <<'SCRIPT'
cd /opt && tar -xzf /files/libreef-$VERSION-x86_64-linux.tar.gz
cd libreef-$VERSION-x86_64-linux
export PKG_CONFIG_PATH=$PWD/lib/pkgconfig LD_LIBRARY_PATH=$PWD/lib
cc examples/infer.c $(pkg-config --cflags --libs reef) -o /tmp/infer && /tmp/infer cpu:0 resnet18 64
cc examples/infer.c $(pkg-config --cflags reef) lib/libreef.a -lgcc_s -lutil -lrt -lpthread -lm -ldl -o /tmp/static
env -u LD_LIBRARY_PATH /tmp/static cpu:0 resnet18 64
c++ -std=c++17 examples/two_classes.cpp $(pkg-config --cflags --libs reef) -pthread -o /tmp/two && echo "C++ compiles"
SCRIPT

awk '/^```python$/ { inside = 1; next } /^```$/ { if (inside) exit } inside' crates/reef-python/README.md >"$work/wheels/readme.py"
wheels=$(find "$files" -maxdepth 1 -name '*x86_64.whl')
[ -n "$wheels" ] || echo "skipped: no wheel"
[ -z "$wheels" ] || try "wheel" <<'SCRIPT'
python3 -m venv /tmp/v
/tmp/v/bin/pip install --quiet --no-index --find-links /wheels /files/*x86_64.whl
export PATH=/tmp/v/bin:$PATH
python /wheels/readme.py
reef --version | grep -F "$VERSION"
REEF_CUDA=/bin/false reef exec --explain --call-profile -- true 2>&1 | grep 'lib/reef/libreef_cuda_shim.so'
reef demo --time 500ms --size 96 --out /tmp/demo | tail -n 4
# As root, for all: the library must not become the driver of other programs.
pip install --quiet --no-index --find-links /wheels --target /tmp/none /files/*x86_64.whl
cp -r /tmp/v/lib/reef /usr/local/lib/ && ldconfig
if ldconfig -p | grep -E 'libcuda|libnvidia-ml'; then exit 1; fi
SCRIPT

# The lines of the page Install, as a reader types them next to the files.
awk '/^## / { here = /From the files of a release/ } /^```$/ { inside = 0 } inside { print } here && /^```sh$/ { inside = 1 }' \
    docs/start/install.md | sed "s/0\.1\.0/$version/g" >"$work/wheels/install.sh"
[ -s "$work/wheels/install.sh" ] || failed+=("page Install: no lines")
if [ -z "$wheels" ] || [ ! -f "$files/reef-rt_${version}_amd64.deb" ]; then
    echo "skipped: page Install: a file is missing"
else
    try "page Install" <<'SCRIPT'
mkdir ~/files && cp /files/SHA256SUMS /files/*.deb /files/*.tar.gz /files/*x86_64.whl ~/files/
cd ~/files
sudo() { "$@"; }
export PIP_NO_INDEX=1 PIP_FIND_LINKS=/wheels DEBIAN_FRONTEND=noninteractive
set +u -x
. /wheels/install.sh
command -v reef
SCRIPT
fi

if [ ${#failed[@]} -gt 0 ]; then
    printf 'FAILED: %s\n' "${failed[@]}"
    exit 1
fi
echo "all files of the release are installed and run"
