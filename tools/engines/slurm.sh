#!/usr/bin/env bash
# slurm.sh REEF LIBRARIES PACKAGE [ROOT]: jobs of both classes under Slurm's own daemons, with deploy/slurm. REEF is the command,
# LIBRARIES a folder with its libraries and the driver for tests, PACKAGE the folder of the Python package `reef`. ROOT is a
# Debian root with Slurm, which is not changed; without it debootstrap makes one. Needs root, and takes the ports 6817 and 6818.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
[ "$(id -u)" = 0 ] || { echo "skipped: Slurm: not root"; exit 0; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=${4:-}
if [ -z "$root" ]; then
    command -v debootstrap >/dev/null || { echo "skipped: Slurm: no debootstrap"; exit 0; }
    root=$work/root
    debootstrap --variant=minbase --include=slurmctld,slurmd,slurm-client,munge,python3-numpy bookworm "$root" \
        >"$work/log" 2>&1 || { echo "skipped: Slurm can't be installed: $(tail -n 1 "$work/log")"; exit 0; }
fi
mkdir "$work/files"
cp "$1" "$work/files/reef"
cp "$2"/libreef_cuda_shim.so "$2"/libfake_libcuda.so "$here/program.py" "$here/slurm_inside.sh" \
    "$here/../../deploy/slurm/task-prolog.sh" "$here/../../deploy/slurm/slurm.conf" "$work/files"
cp -r "$3" "$work/files/package"
timeout --kill-after=5 300 unshare --mount --pid --fork --kill-child bash -euc '
    mount -t tmpfs none /mnt && mkdir /mnt/upper /mnt/work /mnt/merged
    mount -t overlay none -o "lowerdir=$1,upperdir=/mnt/upper,workdir=/mnt/work" /mnt/merged
    cd /mnt/merged
    mount -t proc none proc && mount --rbind /dev dev && mount --rbind /sys sys
    mount -t tmpfs none tmp && mount -t tmpfs none run
    cp -r "$2" tmp/files
    exec chroot . env -i HOME=/root PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin bash -euo pipefail /tmp/files/slurm_inside.sh
' slurm "$root" "$work/files" >"$work/said" 2>&1 </dev/null || { cat "$work/said"; exit 1; }
cat "$work/said"
