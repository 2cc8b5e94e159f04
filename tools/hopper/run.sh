#!/usr/bin/env bash
# Builds the study and, where there is a GPU, runs it beside its peers:
#
#     tools/hopper/run.sh [FOLDER]        (default: target/hopper; NVCC=... another compiler than that of the PATH)
#
# FOLDER has what it needs on a machine that has a GPU and no compiler: `study`, eight images, peers.py. STUDY_ONLY_BUILD=1 stops
# there.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
folder=${1:-$here/../../target/hopper}
nvcc=${NVCC:-nvcc}
mkdir -p "$folder/kernels"
folder=$(cd "$folder" && pwd)
cd "$here"
python3 instructions.py >"$folder/kernels/wgmma_made.h"
for image in network tensor; do
    for build in plain guarded; do
        python3 -c 'import sys, zlib; sys.stdout.buffer.write(zlib.decompress(sys.stdin.buffer.read()))' \
            <"../../reef-cuda/images/$image-$build-sm_90.z" >"$folder/$image-$build.cubin"
    done
done
cp ../../kernels/*.h "$folder/kernels"
flags=(-std=c++17 -O2 -gencode "arch=compute_90a,code=sm_90a" -I"$folder/kernels")
"$nvcc" "${flags[@]}" -DREEF_SLAB=128 -DREEF_GUARDED=0 -cubin gathered.cu -o "$folder/gathered-plain.cubin"
"$nvcc" "${flags[@]}" -DREEF_SLAB=128 -DREEF_GUARDED=1 -cubin gathered.cu -o "$folder/gathered-guarded.cubin"
for guarded in 0 1; do
    build=$([ $guarded = 0 ] && echo plain || echo guarded)
    "$nvcc" "${flags[@]}" -DREEF_SLAB=128 -DREEF_GUARDED=$guarded -cubin groups.cu -o "$folder/groups-$build.cubin"
done
flags+=(-DREEF_GUARDED=0)
for part in study today kinds; do "$nvcc" "${flags[@]}" -c "$part.cu" -o "$folder/$part.o"; done
"$nvcc" "${flags[@]}" "$folder"/{study,today,kinds}.o -o "$folder/study" -cudart static \
    ${NVCC_LIBRARIES:+-L"$NVCC_LIBRARIES"}
rm "$folder"/*.o
cp peers.py "$folder"
[ -z "${STUDY_ONLY_BUILD:-}" ] || exit 0
"$folder/study" "$folder"/{network,tensor,gathered}-plain.cubin "$folder/study.csv"
"$folder/study" "$folder"/{network,tensor,gathered}-guarded.cubin "$folder/guarded.csv" vgg19 gathered
for network in vit bert; do
    "$folder/study" "$folder"/{network,tensor,groups}-plain.cubin "$folder/groups-$network.csv" $network groups
done
python3 "$folder/peers.py"
