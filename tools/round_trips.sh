#!/usr/bin/env bash
# Prints a table of round trips to a daemon on the CPU device, by each way: without an inference and with one of
# a small network (ResNet-18, pictures of 32 x 32), one client and four, and a real-time client next to four
# best-effort ones. Each row takes 3 s, or REEF_LOAD_SECONDS.
set -euo pipefail
cd "$(dirname "$0")/.."
exec cargo test -p reef-serve --test processes -- --ignored --exact load::load --nocapture
