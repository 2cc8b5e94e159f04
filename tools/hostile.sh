#!/usr/bin/env bash
# Prints a table of attacks on a daemon by one hostile process: the 99th percentile of a paced local real-time client
# calm and under attack, the longest answer about its health, what others lost, the daemon's memory. Each takes
# REEF_HOSTILE_SECONDS (5) twice; REEF_HOSTILE_ONLY="long JSON" runs one. The attacks are in
# reef-serve/tests/processes/hostile/attacks.rs.
set -euo pipefail
cd "$(dirname "$0")/.."
exec cargo test -p reef-serve --test processes -- --ignored --exact hostile::hostile --nocapture
