#!/bin/sh
# What moves of models cost on a machine with a GPU, and what they delay: about 170 s.
#
#     tools/engines/moves.sh FOLDER [LOG]
#
# FOLDER as in tools/engines/eight_models.py. Run it first on a machine that has just started: pages that it has never used are
# part of what is measured. LOG gets the daemon's log.
set -u
tools=$(dirname "$0")/..
uname -r
nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
echo "$(nproc) processors; large pages: $(cat /sys/kernel/mm/transparent_hugepage/enabled 2>&1)"
grep -E 'MemFree|MemAvailable' /proc/meminfo
timeout 130 python3 "$tools/engines/eight_models.py" "$1" --seconds 60 --log "${2:-/dev/null}"
grep -E 'thp_fault_alloc|thp_fault_fallback |compact_stall|allocstall' /proc/vmstat
timeout 90 python3 "$tools/interpose/move_stalls.py" --seconds 2 --gib 64 --cycles 5
