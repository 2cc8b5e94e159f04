#!/usr/bin/env bash
# command.sh FOLDER BUILT: the command and its libraries below FOLDER, stripped. The libraries are in a folder of their own:
# each has the name of the driver's inside, by which `ldconfig` would link it for all programs.
set -euo pipefail
mkdir -p "$1/bin" "$1/lib/reef"
strip --strip-unneeded -o "$1/bin/reef" "$2/reef"
for library in cuda_shim nvml_shim remote_cuda cudart; do
    strip --strip-unneeded -o "$1/lib/reef/libreef_$library.so" "$2/libreef_$library.so"
done
chmod 755 "$1/bin/reef"
