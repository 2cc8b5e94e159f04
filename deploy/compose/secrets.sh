#!/usr/bin/env bash
# Makes a token, and a certificate with its key for the server's names: deploy/compose/secrets.sh [NAME...] (gpu)
set -euo pipefail
cd "$(dirname "$0")"
[ $# -gt 0 ] || set -- gpu
mkdir -p secrets
umask 077
head -c 24 /dev/urandom | base64 >secrets/token
names=$(printf ',DNS:%s' "$@")
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 365 -subj "/CN=$1" \
    -addext "subjectAltName=${names#,}" -addext basicConstraints=critical,CA:FALSE \
    -keyout secrets/key.pem -out secrets/certificate.pem 2>/dev/null
# The image's user reads them by its group where secrets are files of the host's.
chmod 640 secrets/*
echo "made for $*: $(ls secrets | tr '\n' ' ')"
