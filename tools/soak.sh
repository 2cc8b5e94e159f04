#!/usr/bin/env bash
# Keeps a daemon on the CPU device busy by all ways and in both classes for ten minutes, or REEF_SOAK_SECONDS:
# clients are killed -9 and begun anew, others connect anew, a model is loaded and unloaded. Prints what memory,
# threads and files the daemon has every 10 s, and fails unless the mean of the last third is within 2 % or
# 2 MiB (2 threads, 2 files) of the middle one's.
set -euo pipefail
cd "$(dirname "$0")/.."
exec cargo test -p reef-serve --test processes -- --ignored --exact soak::soak --nocapture
