#!/usr/bin/env bash
# tag_wheel.sh PYTHON WHEEL: gives a wheel the name of the systems that it runs on, as registries take no other. PYTHON has
# auditwheel and wheel.
set -euo pipefail
tag=$("$1" -m auditwheel show "$2" 2>&1 | grep -o 'manylinux_[0-9]*_[0-9]*_[a-z0-9_]*[a-z0-9]' | head -n 1)
"$1" -m wheel tags --remove --platform-tag "$tag" "$2"
