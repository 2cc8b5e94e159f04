#!/usr/bin/env bash
# Are the images of device code those of kernels/*.cu? Compiling all anew takes a hundred seconds of processors. So a
# source's images are compared only if the source, a header that it includes, how images are made, or an image is not
# as it was at the last comparison.
#
#     tools/images_check.sh            compares the images of sources that changed
#     tools/images_check.sh --make     makes them anew
#     tools/images_check.sh --record   compares them, and notes that; commit the note after the images
#
# With --all as the last argument: of all sources, as before a release.
set -euo pipefail
cd "$(dirname "$0")/.."
record=kernels/build/compared.txt
tables=(crates/images/resources.txt reef-hip/images/resources.txt)

# A file and all files of kernels/ that it includes, directly or not.
included() { # FILE
    local all=("$1") at name
    for ((at = 0; at < ${#all[@]}; at++)); do
        for name in $(sed -n 's/^ *# *include *"\([^"]*\)".*/\1/p' "${all[at]}"); do
            if [ -f "kernels/$name" ] && [[ " ${all[*]} " != *" kernels/$name "* ]]; then all+=("kernels/$name"); fi
        done
    done
    printf '%s\n' "${all[@]}"
}

# A hash over names and contents of all files that a source's images come from, over the images, and over its rows of
# the tables; none if git doesn't have them as they are here.
identity() { # SOURCE
    local files
    mapfile -t files < <(included "kernels/$1.cu")
    files+=(kernels/build reef-cuda/src/code/nvrtc.rs "crates/images/*/$1-*.z" "reef-hip/images/$1-*.z")
    [ -z "$(git status --porcelain -- "${files[@]}" "${tables[@]}" ":!$record")" ] || return 1
    { git ls-files --stage -- "${files[@]}" ":!$record"; grep -h "^$1\." "${tables[@]}"; } | git hash-object --stdin
}

changed=() sources=()
for file in kernels/*.cu; do
    source=$(basename "$file" .cu)
    sources+=("$source")
    now=$(identity "$source") && grep -qsxF "$source $now" "$record" || changed+=("$source")
done
chosen=("${changed[@]}")
# All, by no name, also finds images and rows of a source that is gone.
if [ "${!#}" = --all ] || [ "$(cut -d ' ' -f 1 "$record" 2>/dev/null)" != "$(printf '%s\n' "${sources[@]}")" ]; then
    changed=("${sources[@]}") chosen=()
fi

if [ "${1:-}" = --make ]; then
    [ ${#changed[@]} = 0 ] || cargo xtask kernels "${chosen[@]}"
elif [ ${#changed[@]} = 0 ]; then
    echo "images and their sources are, by hash, those that were compared: ${sources[*]}"
elif [ "${1:-}" = --record ]; then
    said=$(cargo xtask kernels --check "${chosen[@]}" | tee /dev/stderr)
    [[ $said != *skipped* ]] || { echo "not all were compared: nothing is noted" >&2; exit 1; }
    notes=()
    for source in "${sources[@]}"; do
        now=$(identity "$source") || { echo "commit kernels and images first: git has other files" >&2; exit 1; }
        notes+=("$source $now")
    done
    printf '%s\n' "${notes[@]}" >"$record"
else
    echo "compared: ${changed[*]}"
    cargo xtask kernels --check "${chosen[@]}"
fi
