#!/usr/bin/env bash
# arm64.sh [FOLDER]: builds the Python package for arm64 on another processor, unpacks it next to a Python for arm64 and runs its
# first minute under an emulator: the command, and both classes from Python. Needs Debian and root; installs what it needs.
# FOLDER (target/arm64) gets the wheel. REEF_BUILD_PROFILE=dev is quicker.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$(mkdir -p "${1:-target/arm64}" && cd "${1:-target/arm64}" && pwd)
triple=aarch64-unknown-linux-gnu

have() { command -v "$1" >/dev/null; }
if ! { have aarch64-linux-gnu-gcc && have qemu-aarch64-static && have debootstrap; }; then
    apt-get install -y -qq gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user-static debootstrap >/dev/null
fi
rustup target add "$triple"

export CARGO_BUILD_TARGET=$triple CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
rm -rf "$folder"/wheel && mkdir "$folder"/wheel
pip wheel --quiet --no-deps --wheel-dir "$folder/wheel" ./crates/reef-python
python3 -m venv "$folder/tools"
"$folder/tools/bin/pip" install --quiet auditwheel wheel
tools/release/tag_wheel.sh "$folder/tools/bin/python" "$folder"/wheel/*.whl
wheel=$(ls "$folder"/wheel/*.whl)
ls -l "$wheel"

# Debian's Python for arm64, unpacked alone: its scripts are of no use here.
root=$folder/root
if [ ! -e "$root/usr/bin/python3.11" ]; then
    rm -rf "$root"
    debootstrap --arch arm64 --foreign --variant=minbase --include=python3 bookworm "$root" >/dev/null
    for package in "$root"/var/cache/apt/archives/*.deb; do dpkg-deb --extract "$package" "$root"; done
fi
packages=$root/opt/packages
rm -rf "$packages"
pip install --quiet --target "$packages" --platform manylinux2014_aarch64 --platform manylinux_2_28_aarch64 --python-version 3.11 \
    --only-binary :all: numpy
unzip -q "$wheel" -d "$packages"
emulated() { qemu-aarch64-static -L "$root" "$@"; }
command=$(ls "$packages"/reef_rt-*.data/scripts/reef)
chmod +x "$command"
emulated "$command" --version
emulated "$command" demo --be-model resnet18 --rt-model resnet18 --size 32 --time 200ms --out "$folder/demo"
cat >"$folder/minute.py" <<'P'
import platform

import numpy as np
import reef

with reef.open("cpu") as device:
    net = device.load("resnet18", input_size=32)
    x = np.zeros(net.inputs[0].shape, net.inputs[0].dtype)
    with device.best_effort() as be, device.real_time() as rt:
        jobs = [be.submit(net, x) for _ in range(4)]
        y = rt.run(net, x)
        assert all(np.array_equal(y, job.result()) for job in jobs)
    print(platform.machine(), device.stats())
P
PYTHONPATH=$packages emulated "$root/usr/bin/python3.11" "$folder/minute.py"
