#!/usr/bin/env bash
# Keeps a daemon on the CPU device busy for half an hour, or REEF_SOAK_SECONDS, by the local path, Unix sockets, TCP and
# registered shared memory, in both classes. A client is killed -9 five times a second, at random and in the middle of its
# requests, and begun anew; a model is loaded and unloaded, another client connects anew. Prints what memory, threads and files the
# daemon has every 10 s. Fails unless every place, claim, byte of budget, piece of shared memory, thread and file
# is back in the end, and the 90th percentile of the last third is within 2 % or 2 MiB (2 threads, 2 files) of the middle one's.
set -euo pipefail
cd "$(dirname "$0")/.."
exec cargo test -p reef-serve --test processes -- --ignored --exact soak::soak --nocapture
