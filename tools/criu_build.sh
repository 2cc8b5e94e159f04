#!/usr/bin/env bash
# Builds CRIU 4.2 from its source, for machines whose distribution has an older one.
#
#     tools/criu_build.sh FOLDER        makes FOLDER/criu; FOLDER is outside of this repository
#
# Then name it with REEF_CRIU=FOLDER/criu. It needs git, a C compiler and CRIU's libraries. On Debian and Ubuntu,
# FOLDER/source/contrib/dependencies/apt-packages.sh installs these, as root.
set -euo pipefail
tag=v4.2
commit=3c7d4fa013297b431da48eff821db7f2e8b90c27 # of the tag, which could be moved
[ $# = 1 ] || { sed -n '2,7s/^# \{0,1\}//p' "$0"; exit 2; }
top=$(cd "$(dirname "$0")/.." && pwd)
folder=$(realpath -m "$1")
case $folder/ in
"$top"/*) echo "$folder: must be outside of the repository" >&2; exit 2 ;;
esac
source=$folder/source
if [ ! -e "$source" ]; then
    mkdir -p "$folder"
    git clone -q --depth 1 --branch "$tag" https://github.com/checkpoint-restore/criu "$source"
fi
found=$(git -C "$source" rev-parse HEAD)
[ "$found" = "$commit" ] || { echo "$source: must be commit $commit, got $found" >&2; exit 1; }
make -C "$source" -j "$(nproc)" criu || {
    echo "$source does not compile: contrib/dependencies/ there lists what it needs" >&2
    exit 1
}
install "$source/criu/criu" "$folder/criu"
"$folder/criu" --version
